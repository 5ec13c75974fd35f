"""What assembling one kernel gives: machine code, what its entry takes, and readings. Vendor-neutral plain data."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

ENTRY = "kernel"
"""The name of every entry, as `workers.protocol.plan.Kernel` promises."""

CLASSES = (
    "load_global",
    "store_global",
    "load_shared",
    "store_shared",
    "atomic",
    "matrix",
    "float",
    "special",
    "integer",
    "convert",
    "branch",
    "barrier",
    "other",
)
"""Classes of the reading `instructions`; the package's docstring says what counts as what."""

ACCESSES = ("load_global", "store_global")
"""Classes of what moves data to and from global memory."""

MemoryPath = Literal["plain", "async", "bulk"]
TensorCore = Literal["none", "mma", "wgmma"]


@dataclass(frozen=True, slots=True)
class EntryParameter:
    """One parameter of a kernel's entry.

    Attributes:
        bytes: Its size.
        type: `pointer`, `float` or `bits`, as far as the assembly tells them apart.
    """

    bytes: int
    type: Literal["pointer", "float", "bits"]


@dataclass(frozen=True, slots=True)
class LoopIteration:
    """One turn of a kernel's innermost loops that access global memory; of several loops, one turn of each.

    Attributes:
        instructions: Static counts by class; classes that do not occur may be left out.
        thread_bytes: Bytes that a thread loads from and stores to global memory.
        program_bytes: Bytes that the copy engine brings a program.
    """

    instructions: dict[str, int]
    thread_bytes: int
    program_bytes: int


STRAIGHT = LoopIteration({}, 0, 0)
"""Of a kernel without such loops."""


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """What the instructions of a kernel say about how it works.

    Attributes:
        instructions: Static counts by class, every class present.
        load_width_bytes: Widest load from global memory that a thread issues; 0 if it loads nothing.
        memory_path: How data comes from global memory: `plain` loads, `async` copies to shared memory, `bulk` copies
            by the copy engine.
        tensor_core: `mma` for the synchronous matrix instructions, `wgmma` for those of a whole warp group (and their
            successors).
        loops: Whether any jump goes back.
        turn: What its innermost loops do.
        open_barriers: Barriers in shared memory that are initialised in more places than they are invalidated in. What
            else lies there later is lost when the kernel is interrupted.
        sums: Types in which its matrix instructions add up, as PTX names them, as far as the instructions tell.
        factors: Types of what they multiply.
    """

    instructions: dict[str, int]
    load_width_bytes: int
    memory_path: MemoryPath
    tensor_core: TensorCore
    loops: bool
    turn: LoopIteration = STRAIGHT
    open_barriers: int = 0
    sums: frozenset[str] = frozenset()
    factors: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MachineCode:
    """One assembled kernel.

    Attributes:
        code: The machine code, ready to load.
        parameters: What the entry takes, in order.
        registers: Registers a thread.
        spill_bytes: Bytes of spilled registers that a thread stores and loads, counted once a spilling instruction.
        shared_bytes: Shared memory a program, bytes.
        mix: What its instructions say.
    """

    code: bytes
    parameters: tuple[EntryParameter, ...]
    registers: int
    spill_bytes: int
    shared_bytes: int
    mix: InstructionMix

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the machine code."""
        return hashlib.sha256(self.code).hexdigest()
