"""The sanitizer: replays a bundle under NVIDIA's compute-sanitizer, with a separate allocation for every buffer.

messages        request to the replay program, and its report on memory
replay_program  that program: `python -m workers.sanitizer.replay_program`, only our own host code
memory          allocations of exactly the size that a plan requests
findings        output of the tool, parsed into findings with names of buffers and kernels
tool            location of the tool, and one run of it

An ordinary judgement keeps all buffers in one arena, whose red zones show writes out of bounds. Reads out of bounds,
reads of uninitialised memory and races in shared memory show only here. They take seconds, so only finalists pass here.
"""

from workers.sanitizer.tool import TOOLS, Sanitizer, find_sanitizer, tool_homes

__all__ = ["TOOLS", "Sanitizer", "find_sanitizer", "tool_homes"]
