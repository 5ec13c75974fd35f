"""The checker's loop: opens the card, then answers one order after the other."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import torch

from workers import driver
from workers.checker.card import CudaCard
from workers.checker.examiner import Examiner
from workers.checks import CHECKS, Check
from workers.children import Channel
from workers.errors import WorkerError
from workers.orders import Broken, Examined, Opened, Order
from workers.protocol import Seat
from workers.support import SupportKernel
from workers.turns import Turns

MEMORY_SHARE = 0.3
"""Share of a seat's memory that answers may take. Those of a race of 16 pairs take 8 GB where every output is of
16 bits, for a sample lasts 100 us whatever the shape: five races fit on 141 GB."""

NO_MEMORY = ("CUDA_ERROR_OUT_OF_MEMORY", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""How a driver or library says that there is too little memory."""


def serve(
    channel: Channel, seat: Seat, kernels: Mapping[str, SupportKernel], checks: Mapping[str, Check] = CHECKS
) -> None:
    """Be the checker until the other end hangs up.

    Args:
        channel: Where orders come from and answers go.
        seat: Which card, and how many checkers share it.
        kernels: From `compile_support` and `compile_checker`, for the card's target.
        checks: What runs are held against.
    """
    torch.set_num_threads(1)  # Threads of the bench did not come along.
    demand_precision()
    try:
        with closing(Turns(driver.address_of(seat.card))) as turns, turns.among_others():
            opened = CudaCard(seat.card, kernels)
    except (WorkerError, RuntimeError) as error:
        channel.answer(Broken(error=f"the checker cannot open card {seat.card}: {error}"))
        return
    examiner = Examiner(opened, int(MEMORY_SHARE * opened.memory_bytes / seat.sharers), checks)
    versions = {**opened.opened.versions, "torch": torch.__version__, "card": opened.opened.name}
    channel.answer(Opened(card=opened.opened.name, versions=versions))
    for order in channel.orders():
        channel.answer(respond(examiner, order))


def respond(examiner: Examiner, order: Order) -> Examined | Broken:
    """Carry out an order; if the card's memory is too small, once more with everything forgotten."""
    reply = _try(examiner, order)
    if reply is None:
        examiner.forget()
        reply = _try(examiner, order)
    examiner.tidy()
    return reply or Broken(error=f"the card's memory does not suffice to carry out '{order.order}'")


def demand_precision() -> None:
    """Have torch compute the reference as it is written: no TF32, no sums in halves, no choice of algorithm by time."""
    backends: Any = torch.backends
    backends.cuda.matmul.fp32_precision = "ieee"
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    backends.cudnn.conv.fp32_precision = "ieee"
    backends.cudnn.benchmark = False
    backends.cudnn.deterministic = True


def _try(examiner: Examiner, order: Order) -> Examined | Broken | None:
    """The answer; None if there is too little memory, all that this attempt held being let go of."""
    try:
        return examiner.answer(order)
    except (WorkerError, RuntimeError, ValueError) as error:
        return None if _lacks_memory(error) else Broken(error=f"{type(error).__name__}: {error}")


def _lacks_memory(error: Exception) -> bool:
    """Whether the card's memory was too small; libraries behind torch say so in their own words."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in NO_MEMORY)
