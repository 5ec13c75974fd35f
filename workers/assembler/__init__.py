"""The assembler: a traced bundle's hostile assembly text to machine code and readings. Trusted code, no GPU.

    assembly              a bundle, then readings of each plan
    ptx, amd              kernels: rules for their text, then the pinned assembler in a sandbox
    launch_checks         arguments of a launch against the entry, its matrix instructions against the contract
    readings              machine code and plans to readings

Classes of the reading `instructions`. They are static counts in the assembly text: each instruction counts once,
however often it runs and however many elements it handles.

    load_global, store_global   loads, stores and copies between global memory and elsewhere
    load_shared, store_shared   the same within the program's shared memory, `ldmatrix` and `stmatrix` included
    atomic                      atomics and reductions in memory
    matrix                      the matrix units: mma, wgmma and its companions, tcgen05, mfma
    float                       floating-point arithmetic and comparison, packed or not
    special                     exp, log, sin, cos, tanh, division, reciprocals and roots
    integer                     integer arithmetic and comparison, logic and shifts
    convert                     conversions between types
    branch                      jumps, calls and returns
    barrier                     barriers and fences
    other                       moves, selects, shuffles, parameters, local memory
"""

from workers.assembler.assembly import AssembledBundle, Assembler, assemble, assemble_kernel, ptxas_of
from workers.assembler.machine import CLASSES, MachineCode
from workers.assembler.ptx.tools import read_own_tools, toolchain_of
from workers.assembler.refusal import AssemblyRefused

__all__ = [
    "CLASSES",
    "AssembledBundle",
    "Assembler",
    "AssemblyRefused",
    "MachineCode",
    "assemble",
    "assemble_kernel",
    "ptxas_of",
    "read_own_tools",
    "toolchain_of",
]
