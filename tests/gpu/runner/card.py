"""Work with a card, each piece in a process of its own: this one forks, and so must never open the card itself."""

import functools
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import torch

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers import driver
from workers.commands import TIMED, ChildReady, InputContent, RunSlot
from workers.device_kernels import (
    DeviceKernels,
    SupportKernel,
    assign_content,
    compile_support,
    timed_content,
    zone_seed,
)
from workers.inputs import draw
from workers.memory_layout import SMALL_ZONE_BYTES, place
from workers.protocol import Bundle, Plan
from workers.runner.arena import Arena

TARGET = "sm_90"
DIMS = ({"M": 64, "N": 4096}, {"M": 4096, "N": 4096})
ARENA_BYTES = 6 * 2**30
T = TypeVar("T")


@functools.cache
def support_kernels() -> dict[str, SupportKernel]:
    return compile_support(TARGET)


@functools.cache
def rmsnorm() -> Bundle:
    """Plans of a plain RMSNorm, small and large."""
    kernel = compiled("rmsnorm", TARGET)
    return bundle_of(kernel, *(rmsnorm_plan(kernel, dims) for dims in DIMS))


def slots_of(
    bundle: Bundle, plan: Plan, count: int = 1, start: int = 0, limit: int = ARENA_BYTES
) -> tuple[RunSlot, ...]:
    return place(bundle, plan, count, Random(start), start=start, limit=limit, zone_bytes=SMALL_ZONE_BYTES)


def on_card(work: Callable[..., T], *arguments: object) -> T:
    """Run a function of a module in a forked process; what it returns or raises comes back."""
    with warnings.catch_warnings():
        # Newer Pythons warn of threads; the child takes no lock that another thread of ours could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            return pool.submit(work, *arguments).result()


@contextmanager
def opened() -> Iterator[tuple[driver.DriverCard, DeviceKernels, int]]:
    """The card, kernels of ours on it, and a stream; in a process that may open it."""
    card = driver.open_card(0)
    torch.cuda.set_device(0)
    yield card, DeviceKernels(support_kernels()), driver.make_stream()


def look(greeting: ChildReady, plan: Plan, slot: RunSlot, content: InputContent) -> dict[str, object]:
    """What a run of RMSNorm left in a runner's arena, seen from another process."""
    with opened() as (_, support, stream):
        arena = Arena.open(bytes.fromhex(greeting.handle), greeting.arena_bytes)
        inputs = _inputs_of(support, stream, plan, content)
        (view,) = plan.outputs
        output = arena.view(view, slot.buffers[view.buffer]).double()
        x, weight = (tensor.double() for tensor in inputs)
        expected = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
        finite = expected.isfinite()
        return {
            "inputs": all(
                torch.equal(arena.tensor(slot.buffers[index], tensor.nbytes), tensor.view(-1).view(torch.uint8))
                for index, tensor in enumerate(inputs)
            ),
            "finite": torch.equal(finite, output.isfinite()),
            "error": float((output - expected)[finite].norm() / expected[finite].norm()),
            "damaged": support.zones_count(stream, arena.pointer, slot.zones, zone_seed(content.seed)),
        }


def _inputs_of(support: DeviceKernels, stream: int, plan: Plan, content: InputContent) -> tuple[torch.Tensor, ...]:
    device = torch.device("cuda", 0)
    if content.draw != TIMED:
        return draw(RMSNORM, plan.shape, content.draw, bytes.fromhex(content.seed), device=device)
    blank = [
        torch.empty(RMSNORM.input_shape(item, plan.shape.dims), dtype=torch.bfloat16, device=device)
        for item in RMSNORM.inputs
    ]
    places = [tensor.data_ptr() for tensor in blank]
    contents = timed_content(RMSNORM, plan.shape)
    support.fill_content(stream, assign_content(contents, content.seed, content.stream, places))
    driver.synchronise(stream)
    return tuple(blank)
