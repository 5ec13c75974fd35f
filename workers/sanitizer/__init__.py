"""The sanitizer: a bundle replayed under NVIDIA's compute-sanitizer, where every buffer is an allocation of its own.

messages    what the replaying program is asked, and what it says of its memory
replaying   that program: `python -m workers.sanitizer.replay_program`, host code of ours only
memory      allocations of exactly the size that a plan asks for
findings    what the tool printed, read as findings with names of buffers and kernels
tool        where the tool is, and one run of it

An ordinary judgement keeps all buffers in one arena, whose red zones show writes outside of them. Reads outside,
reads of what nobody wrote and races in shared memory show only here, and take seconds: finalists alone come here.
"""

from workers.sanitizer.tool import TOOLS, Sanitizer, find_sanitizer

__all__ = ["TOOLS", "Sanitizer", "find_sanitizer"]
