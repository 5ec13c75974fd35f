"""Measured rates of a card: memory read and copied, and a large bfloat16 product; floors are taken from them.

    python -m benchmarks.rates --card 0        prints one JSON object

Other processes of Kernelreef are kept from the card meanwhile.

Medians of repetitions between events, each after its own warm-up. Buffers are 2 GiB, far more than any cache. A floor
that was measured so is one that something on the same card has reached.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import closing

import torch

from workers import driver
from workers.gpu_lock import GpuLock

BUFFER_BYTES = 2**31
SIDE = 8192
REPEATS = 20


def seconds(call: Callable[[], object]) -> float:
    """The median of a call's times on the card."""
    for _ in range(3):
        call()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]
    for start, stop in events:
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events) / 1e3


def rates() -> dict[str, float]:
    """Bytes and operations a second of the present card."""
    here, there = (torch.zeros(BUFFER_BYTES // 4, dtype=torch.float32, device="cuda") for _ in range(2))
    copied = 2 * BUFFER_BYTES / seconds(lambda: there.copy_(here))
    read = BUFFER_BYTES / seconds(here.sum)
    left, right = (torch.randn(SIDE, SIDE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    multiplied = 2.0 * SIDE**3 / seconds(lambda: left @ right)
    return {"copied_bytes_per_s": copied, "read_bytes_per_s": read, "matrix_flops_per_s": multiplied}


def main() -> None:
    """Print the rates of a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", type=int, default=0)
    card = parser.parse_args().card
    torch.cuda.set_device(card)
    with closing(GpuLock(driver.address_of(card))) as lock, lock.exclusive():
        print(json.dumps(rates()))


if __name__ == "__main__":
    main()
