"""Kernels of ours: what happens on a card between the runs of a candidate. Trusted, compiled ahead, without a card.

contents      which values timed content has: specs and seeds, pure
kernels       the Triton kernels
compilation   `compile_support`: machine code for a target, made in the bench before it forks
enqueueing    `Support`: the kernels loaded in a process that has opened a card

Nothing in them looks at a candidate.
"""

from workers.support.compilation import SUPPORT, SupportKernel, compile_support
from workers.support.contents import (
    ContentJob,
    ContentSpec,
    Kind,
    assign_content,
    content_jobs,
    seal_key,
    stream_seed,
    timed_content,
    zone_seed,
)
from workers.support.enqueueing import MOST_DELAYS, Delay, Support, float_bits

__all__ = [
    "MOST_DELAYS",
    "SUPPORT",
    "ContentJob",
    "ContentSpec",
    "Delay",
    "Kind",
    "Support",
    "SupportKernel",
    "assign_content",
    "compile_support",
    "content_jobs",
    "float_bits",
    "seal_key",
    "stream_seed",
    "timed_content",
    "zone_seed",
]
