"""The profiler: why one plan of a judged bundle takes its time. Trusted code; nothing is judged by what it finds.

launches    what machine code and launches tell without running: resources, occupancy, hottest instructions
counters    output of Nsight Compute, parsed
nsight      location of Nsight Compute, and one run of the sanitizer's replay program under it

`devices` add times by the clock of the judge. No candidate's Python runs anywhere here.
"""

from workers.profiler.launches import profile_launches, with_counters
from workers.profiler.nsight import ABSENT, NsightCompute, NsightFailed, find_nsight

__all__ = ["ABSENT", "NsightCompute", "NsightFailed", "find_nsight", "profile_launches", "with_counters"]
