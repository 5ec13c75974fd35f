"""Small plans, slots for them, and what they need on paper."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random

import torch

from tests.workers.oracle.paper import keyed_sum
from tests.workers.paper_driver import Launched, Paper, code, on_paper
from workers.commands import RunSlot
from workers.device_kernels import SUPPORT, DeviceKernels, SupportKernel
from workers.memory_layout import place
from workers.protocol import (
    Allocate,
    Buffer,
    Bundle,
    Copy,
    Fill,
    Input,
    Kernel,
    Launch,
    Number,
    Operator,
    Output,
    Plan,
    Pointer,
    Shape,
    View,
)
from workers.runner.arena import ALIGNMENT, Arena

COUNT = 300
"""Elements of `x` and `y`, float32."""
OPERATOR = Operator(
    name="scale",
    entry="scale",
    reference="def scale(x): ...",
    inputs=(Input(name="x", shape=("N",), dtype="float32"),),
    outputs=(Output(name="y", dtype="float32"),),
    shapes=({"dims": {"N": COUNT}},),
)
ARENA_BYTES = 2**22


def kernel(**how: int) -> Kernel:
    return Kernel(language="ptx", assembly="", target="sm_90", **{"num_warps": 4, **how})


def whole(buffer: int) -> View:
    return View(buffer=buffer, shape=(COUNT,), strides=(1,), dtype="float32")


def launch(of: Kernel, *buffers: int) -> Launch:
    pointers = [Pointer(buffer=buffer, offset_bytes=4 * buffer, extent_bytes=0, dtype="float32") for buffer in buffers]
    return Launch(kernel=of.digest, grid=(3, 1, 1), arguments=(*pointers, Number(type="i32", value=-7)), function="f")


def bundle_of(of: Kernel, *, steps: str = "launch", count: int = COUNT) -> Bundle:
    """x (buffer 0) to y (buffer 1), over a copy of x (buffer 2)."""
    known = {
        "launch": launch(of, 0, 1),
        "fill": Fill(target=whole(1), value=2.5),
        "copy": Copy(source=whole(0), target=whole(2)),
    }
    plan = Plan(
        shape=Shape(dims={"N": count}),
        buffers=(Buffer(id=0, bytes=4 * count, input=0), Buffer(id=1, bytes=4 * count), Buffer(id=2, bytes=4 * count)),
        steps=(Allocate(buffer=1), Allocate(buffer=2), *(known[name] for name in steps.split())),
        outputs=(whole(1),),
    )
    return Bundle(target="sm_90", operator=OPERATOR.digest, kernels={of.digest: of}, plans=(plan,))


def slots_of(bundle: Bundle, count: int = 1, start: int = 0, seed: int = 1, limit: int = ARENA_BYTES) -> list[RunSlot]:
    return list(place(bundle, bundle.plans[0], count, Random(seed), start=start, limit=limit, zone_bytes=512))


def machine_code(bundle: Bundle, **how: object) -> dict[str, bytes]:
    """Code of kernels that take two pointers, a number and the scratch pointers, and do `work`."""
    return {digest: code(5, "work", **how) for digest in bundle.kernels}


def arena(size: int = ARENA_BYTES) -> Arena:
    """An arena in host memory, of as many bytes as one on a card would have."""
    size = -(-size // ALIGNMENT) * ALIGNMENT
    return Arena(torch.zeros(size, dtype=torch.uint8), lambda: None, b"\x07" * 64)


def support_kernels() -> dict[str, SupportKernel]:
    """Kernels of ours on paper: how many parameters each takes, and what it is called in the log."""
    parameters = {"poison": 3, "count_unpoisoned": 4, "fill_zones": 4, "count_zones": 5, "sum_up": 4, "flush": 3}
    parameters["delay"] = 4
    return {
        name: SupportKernel(
            code(parameters.get(name, 7 if "float" in name else 6), name), name, shared_bytes=0, num_warps=4
        )
        for name in SUPPORT
    }


@contextmanager
def supported() -> Iterator[tuple[Paper, DeviceKernels]]:
    """A driver on paper and kernels of ours on it.

    `poison` and `sum_up` do what they are for, and so does `delay` at 1980 MHz; inputs and red zones are filled with
    the lowest byte of their seed.
    """
    with on_paper() as paper:
        paper.deeds |= {"poison": _poison, "fill_float32": _fill, "fill_zones": _fill_zones, "sum_up": _sum_up}
        paper.deeds["delay"] = partial(hold, paper)
        support = DeviceKernels(support_kernels())
        paper.log.clear()
        yield paper, support


def rows(launched: Launched, words: int) -> list[list[int]]:
    table = (ctypes.c_uint64 * (words * launched.grid[1])).from_address(launched.parameters[0])
    return [list(table[start : start + words]) for start in range(0, len(table), words)]


def hold(paper: Paper, launched: Launched) -> None:
    asked_ns, told = launched.parameters[:2]
    (ctypes.c_int64 * 3).from_address(told)[:] = [asked_ns * 99 // 50, asked_ns, round(paper.now_us * 1e3)]


def _poison(launched: Launched) -> None:
    for address, size in rows(launched, 2):
        ctypes.memset(address, 0xFF, size)


def _sum_up(launched: Launched) -> None:
    for address, size, target in rows(launched, 3):
        total = ctypes.c_int64.from_address(target)
        total.value += keyed_sum(address, size, launched.parameters[1])


def _fill(launched: Launched) -> None:
    for address, seed in rows(launched, 2):
        ctypes.memset(address, seed & 0xFF, 4 * launched.parameters[1])


def _fill_zones(launched: Launched) -> None:
    for address, _, size in rows(launched, 3):
        ctypes.memset(address, launched.parameters[1] & 0xFF, size)
