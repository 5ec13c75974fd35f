"""Inputs and results lie as the judge places them."""

from functools import partial
from itertools import pairwise
from random import Random

import pytest
import torch

from benchmarks import shifted_places
from benchmarks.shifted_places import ResultPlaces, ShiftedMemory, TorchMemory, places
from tests.service import records
from tests.service.certificates.evidence import SOURCE
from workers.devices.trial import START_STEPS
from workers.memory_layout import ALIGNMENT, SMALL_ZONE_BYTES, place

MIB = 2**20


def scaled(x: torch.Tensor, by: int) -> torch.Tensor:
    """A kernel on paper: twice the input, into memory that it allocates, and a scratch of 64 numbers."""
    y, scratch = torch.empty_like(x), torch.empty(64)
    torch.mul(x, by, out=y)
    scratch.fill_(1.0)
    return y


def test_places_are_those_of_the_judge() -> None:
    bundle = records.bundle_from(SOURCE)
    plan = bundle.plans[0]
    slots = place(bundle, plan, 50, Random(5), start=1000, limit=2**60, zone_bytes=SMALL_ZONE_BYTES)
    found, end = places([buffer.bytes for buffer in plan.buffers], 50, Random(5), 1000)
    assert len(plan.buffers) > 1 and [tuple(each) for each in found] == [slot.buffers for slot in slots]
    assert slots[-1].end - end < ALIGNMENT, "the end of a slot is aligned"
    assert shifted_places.START_STEPS == START_STEPS


def test_inputs_and_results_lie_apart_at_drawn_places_of_one_block() -> None:
    copies = [[torch.full((200,), float(number)), 2] for number in range(10)]
    memory = ShiftedMemory("cpu", 7)
    sides = memory.lay_out([(scaled, copies), (scaled, copies[:3])])
    assert [len(side) for side in sides] == [10, 3]
    taken = []
    for side in sides:
        for number, each in enumerate(side):
            given, result = each.arguments[0], each.call()
            assert each.arguments[1] == 2 and (given == number).all() and (result == 2 * number).all()
            taken += [(tensor.data_ptr(), tensor.nbytes) for tensor in (given, result)]
    taken.sort()
    apart = [there - here - size for (here, size), (there, _) in pairwise(taken)]
    assert len(taken) == 26 and min(apart) >= 4096 and len(set(apart)) > 10
    assert len({pointer % MIB for pointer, _ in taken}) == 26 and taken[-1][0] - taken[0][0] < 2 * MIB
    starts = [each.arguments[0].data_ptr() for each in sides[0]]
    assert starts != sorted(starts), "calls are in another order than their places"
    assert all((copy[0] == number).all() for number, copy in enumerate(copies))


def test_places_are_drawn_anew_for_each_round_by_a_seed() -> None:
    copies = [[torch.ones(8), 2] for _ in range(6)]

    def offsets(memory: ShiftedMemory) -> list[int]:
        [side] = memory.lay_out([(scaled, copies)])
        return [each.arguments[0].storage_offset() for each in side]

    one, other, third = (ShiftedMemory("cpu", seed) for seed in (1, 1, 2))
    first, second = offsets(one), offsets(one)
    assert first != second and [first, second] == [offsets(other), offsets(other)] and offsets(third) != first


@pytest.mark.parametrize("order", ["contiguous", "transposed"])
def test_a_result_keeps_its_form(order: str) -> None:
    given = torch.arange(12, dtype=torch.int16).reshape(3, 4)
    given = given.t() if order == "transposed" else given
    probe = ResultPlaces()
    probe.run(torch.empty_like, [given])
    assert probe.sizes == [24]
    memory = torch.zeros(24, dtype=torch.uint8)
    made = ResultPlaces([memory]).run(partial(torch.empty_like, dtype=torch.bfloat16), [given])
    assert (made.data_ptr(), made.dtype, made.stride()) == (memory.data_ptr(), torch.bfloat16, given.stride())
    outside = torch.empty_like(given)
    assert outside.data_ptr() != memory.data_ptr(), "only while the function runs"


def test_targets_and_lone_results_are_whole_at_drawn_places() -> None:
    def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Losses of rows in memory of their own, then their mean in memory without dimensions."""
        losses, mean = torch.empty((len(target),)), torch.empty(())
        torch.sub(logits.float().logsumexp(1), logits.float().gather(1, target[:, None])[:, 0], out=losses)
        return torch.mean(losses, 0, out=mean)

    generator = torch.Generator().manual_seed(4)
    copies = [
        [
            torch.randn(8, 300, generator=generator).bfloat16(),
            torch.randint(0, 300, (8,), generator=generator, dtype=torch.int64),
        ]
        for _ in range(9)
    ]
    memory = ShiftedMemory("cpu", 1)
    for count in (3, 9, 5):  # A round with more calls, which needs a larger block, and one with fewer.
        [side, other] = memory.lay_out([(cross_entropy, copies[:count])] * 2)
        for _ in range(2):
            for each, copy in zip([*side, *other], copies[:count] * 2, strict=True):
                assert each.call() == pytest.approx(cross_entropy(*copy)), "nothing lies on anything else"
                assert all(map(torch.equal, each.arguments, copy))


def test_torch_places_what_is_not_shifted() -> None:
    copy = [torch.ones(8), 3]
    [[each]] = TorchMemory().lay_out([(scaled, [copy])])
    assert each.arguments is copy and (each.call() == 3).all()
