"""The interpreter: executes a plan's steps with the source's jit functions on the CPU, inside the sandbox.

The code that it executes is extracted from the source (`extract`) and must compile to the plan's kernels
(`recompilation`). Read `execution` (steps), `launch` (programs), `builder` (instructions) and `memory`, in that order.
"""

from workers.interpreter.execution import execute
from workers.interpreter.language import warm_up
from workers.interpreter.memory import TILE_BYTES
from workers.interpreter.message import InterpretReply, InterpretRequest, MeteredTraffic, pack, unpack

__all__ = ["TILE_BYTES", "InterpretReply", "InterpretRequest", "MeteredTraffic", "execute", "pack", "unpack", "warm_up"]
