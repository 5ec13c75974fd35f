"""The checker: looks at what the runner left in its arena, in a process with a context of its own.

It runs no candidate's code, and the runner never knows what is right.

    serving       `serve`: the loop, on a card of `open_card`; `Checker`: what benches of a card share
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

from workers.checker.compilation import compile_checker
from workers.checker.serving import Checker, open_card, serve

__all__ = ["Checker", "compile_checker", "open_card", "serve"]
