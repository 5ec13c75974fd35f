"""The interpreter: executes a plan's steps with the source's jit functions on the CPU, inside the jail.

Read `execution` (steps), `launch` (programs), `builder` (instructions) and `memory`, in that order.
"""

from workers.interpreter.execution import execute
from workers.interpreter.language import warm_up
from workers.interpreter.message import InterpretReply, InterpretRequest, Traffic, pack, unpack

__all__ = ["InterpretReply", "InterpretRequest", "Traffic", "execute", "pack", "unpack", "warm_up"]
