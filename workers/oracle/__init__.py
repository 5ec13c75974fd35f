"""The oracle: inspects what the runner left in its arena, in a process with a context of its own.

It runs no candidate's code, and the runner never knows the right results.

    server         `Oracle`: shared by the executors of a card, which `open_card` opens
    card           the only module that touches CUDA
    examiner       carries out commands
    looks          the part of many runs that one look is at
    views          buffers of a run, and its inputs made again
    red_zones      descriptions of damaged red zones
    isolation      untrusted calls kept to their own work and time
    answers        expected results and bounds of timed outputs
    answer_cache   answers that are kept
    fast_check     the fast check of all runs of a round
    repetition     agreement of two runs
    kernels        the Triton kernels of the fast check
    compilation    their machine code, made without a card
"""

from workers.oracle.compilation import compile_oracle
from workers.oracle.server import Oracle, open_card

__all__ = ["Oracle", "compile_oracle", "open_card"]
