"""The assembler: a traced bundle's hostile assembly text to machine code and readings. Trusted code, no GPU.

    assembly              a bundle, kernel by kernel, then readings of each plan
    ptx, amd              one kernel: rules on its text, then the pinned assembler in a jail of its own
    signature             what a launch passes against what a kernel takes
    precision             what matrix instructions multiply and add up in against what the contract asks for
    occupancy, readings   machine code and plans to readings

Classes of the reading `instructions`, counted in the assembly text, each instruction once however often it runs and
however many elements it handles:

    load_global, store_global   loads, stores and copies between global memory and elsewhere
    load_shared, store_shared   the same within the program's shared memory, `ldmatrix` and `stmatrix` included
    atomic                      atomics and reductions in memory
    matrix                      the matrix units: mma, wgmma and what goes with them, tcgen05, mfma
    float                       floating-point arithmetic and comparison, packed or not
    special                     exp, log, sin, cos, tanh, division, reciprocals and roots
    integer                     integer arithmetic and comparison, logic and shifts
    convert                     conversions between types
    branch                      jumps, calls and returns
    barrier                     barriers and fences
    other                       moves, selects, shuffles, parameters, local memory
"""

from workers.assembler.assembly import AssembledBundle, Assembler, assemble, assemble_kernel
from workers.assembler.machine import CLASSES, MachineCode
from workers.assembler.refusal import AssemblyRefused

__all__ = ["CLASSES", "AssembledBundle", "Assembler", "AssemblyRefused", "MachineCode", "assemble", "assemble_kernel"]
