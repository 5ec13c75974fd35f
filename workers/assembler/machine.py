"""Result of assembling one kernel: machine code, parameters and readings. Vendor-neutral plain data."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

ENTRY = "kernel"
"""Name of every entry, as `workers.protocol.plan.Kernel` promises."""

TENSOR_MAP_BYTES = 128
"""Size of a tensor map among the parameters; no other argument of a launch has it."""

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
"""Classes of the reading `instructions`; the package's docstring defines them."""

ACCESSES = ("load_global", "store_global")
"""Classes of instructions that move data to and from global memory."""

MemoryPath = Literal["plain", "async", "bulk"]
TensorCore = Literal["none", "mma", "wgmma"]
WarpRoles = Literal["same", "specialised"]
Accumulators = Literal["none", "registers", "tensor_memory"]


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
    """One iteration of a kernel's innermost loops that access global memory; with several loops, one of each.

    Attributes:
        instructions: Static counts by class; classes that do not occur may be left out.
        thread_bytes: Bytes that a thread loads from and stores to global memory.
        program_bytes: Bytes that the copy engine brings per program.
    """

    instructions: dict[str, int]
    thread_bytes: int
    program_bytes: int


STRAIGHT = LoopIteration({}, 0, 0)
"""Iteration of a kernel without such loops."""


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """Facts about a kernel from its instructions.

    Attributes:
        instructions: Static counts by class, every class present.
        load_width_bytes: Widest load from global memory that a thread issues; 0 if it loads nothing.
        memory_path: Path of data from global memory: `plain` loads, `async` copies to shared memory, `bulk` copies
            by the copy engine.
        tensor_core: `mma` for the synchronous matrix instructions, `wgmma` for those of a whole warp group (and their
            successors).
        loops: True if any jump goes back.
        warp_roles: `specialised` if groups of warps set their own numbers of registers, as Triton has them do where
            some load and others compute.
        accumulators: Place of the sums of matrix instructions.
        turn: One iteration of its innermost loops.
        open_barriers: Barriers in shared memory that are initialised in more places than they are invalidated in. Other
            data that is stored there later is lost when the kernel is interrupted.
        sums: Types in which its matrix instructions accumulate, under PTX names, as far as the instructions tell.
        factors: Types of their factors.
    """

    instructions: dict[str, int]
    load_width_bytes: int
    memory_path: MemoryPath
    tensor_core: TensorCore
    loops: bool
    turn: LoopIteration = STRAIGHT
    open_barriers: int = 0
    warp_roles: WarpRoles = "same"
    accumulators: Accumulators = "none"
    sums: frozenset[str] = frozenset()
    factors: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MachineCode:
    """One assembled kernel.

    Attributes:
        code: The machine code, ready to load.
        parameters: Parameters of the entry, in order.
        registers: Registers per thread.
        spill_bytes: Bytes of spilled registers that a thread stores and loads, counted once per spilling instruction.
        shared_bytes: Bytes of shared memory per program.
        mix: Its instruction mix.
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
