"""The checker: looks at what the runner left in its arena, in a process with a context of its own.

It runs no candidate's code, and the runner never knows what is right.

    serving       `serve`: the loop, on a card of `open_card`; `Oracle`: what benches of a card share
    card          the only module that touches CUDA
    examiner      one order after the other
    sight         what is seen of a run, and what it was given
    zones         red zones, in words
    answers       what timed outputs are held against
    memory        answers that are kept
    glance        the quick look at all runs of a round
    repetition    whether two runs agree
    kernels       the Triton kernels behind the quick look
    compilation   their machine code, made without a card
"""

from workers.oracle.compilation import compile_oracle
from workers.oracle.server import Oracle, open_card, serve

__all__ = ["Oracle", "compile_oracle", "open_card", "serve"]
