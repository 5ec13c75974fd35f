"""Support kernels: everything that happens on a card between the runs of a candidate. Trusted, compiled without a card.

contents      values of timed content: specs and seeds, pure
kernels       the Triton kernels
compilation   `compile_support`: machine code for a target, made in the executor before it forks
enqueueing    `DeviceKernels`: the kernels loaded in a process that has opened a card

They never look at a candidate.
"""

from workers.device_kernels.compilation import (
    COPY_BLOCKS,
    SUPPORT,
    Spread,
    SupportKernel,
    compile_copies,
    compile_support,
)
from workers.device_kernels.contents import (
    ContentJob,
    ContentKind,
    ContentSpec,
    assign_content,
    checksum_key,
    stream_seed,
    timed_content,
    zone_seed,
)
from workers.device_kernels.enqueueing import COPY_ALIGNMENT, MAX_DELAYS, ClockReading, DeviceKernels, float_bits

__all__ = [
    "COPY_ALIGNMENT",
    "COPY_BLOCKS",
    "MAX_DELAYS",
    "SUPPORT",
    "ClockReading",
    "ContentJob",
    "ContentKind",
    "ContentSpec",
    "DeviceKernels",
    "Spread",
    "SupportKernel",
    "assign_content",
    "checksum_key",
    "compile_copies",
    "compile_support",
    "float_bits",
    "stream_seed",
    "timed_content",
    "zone_seed",
]
