"""Crossing: parts and numbers of two kernels in one, which compiles and computes what both did."""

import random

import pytest

from service.emitters.base import Parent, ProposalContext
from service.emitters.cross import DEVICE, Cross, exchange, join
from service.emitters.tune import read, write
from service.operators.sources import digest
from tests.service.emitters.samples import rewritten, seed, small

TUNED = {"BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 8, "num_stages": 4}


def context(*sources, draw=0):
    parents = tuple(Parent(f"c{number}", source) for number, source in enumerate(sources))
    return ProposalContext({}, "sm_90", parents, (), random.Random(draw))


def parents(*sources):
    return [Parent(f"c{number}", source) for number, source in enumerate(sources)]


def numbers(source):
    return {item.name: item.value for item in read(source, "sm_90")}


def test_the_device_part_of_another_goes_with_the_host_part():
    faster = rewritten("exp2", small("attention"))
    tuned = write(small("attention"), "sm_90", {"num_warps": 8})
    source, note = join(*parents(tuned, faster), context())
    assert note == DEVICE
    assert "exp2" in source and "num_warps=8" in source


@pytest.mark.parametrize("operator", ["attention", "softmax", "cross_entropy"])
def test_what_is_joined_computes_the_same(operator, assert_same):
    source, _ = join(*parents(small(operator), rewritten("exp2", small(operator))), context())
    assert_same(small(operator), source, operator)


def test_a_kernel_that_needs_what_the_host_does_not_have_is_left_alone():
    persistent = rewritten("persistent", seed("rmsnorm"))
    assert join(*parents(seed("rmsnorm"), persistent), context()) is None


def test_numbers_that_only_the_other_kernel_has_come_along():
    plain = seed("gelu")
    more = plain.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, SCALE: tl.constexpr").replace(
        "BLOCK=1024", "BLOCK=1024, SCALE=1"
    )
    source, _ = join(*parents(plain, more), context())
    assert "SCALE=1" in source


def test_numbers_of_one_go_into_the_other():
    tuned = write(seed("matmul"), "sm_90", TUNED)
    source, note = exchange(*parents(seed("matmul"), tuned), context(draw=3))
    changed = {name for name, value in numbers(source).items() if value != numbers(seed("matmul"))[name]}
    assert changed and changed <= TUNED.keys()
    assert all(numbers(source)[name] == TUNED[name] for name in changed)
    assert all(name in note for name in changed)


async def test_proposals_name_both_parents_and_are_new():
    one, other = write(seed("softmax"), "sm_90", {"num_warps": 4}), rewritten("exp2", seed("softmax"))
    found = [await Cross().propose(context(one, other, draw=draw)) for draw in range(8)]
    assert {proposal.parents for proposal in found} == {("c0", "c1"), ("c1", "c0")}
    assert all(digest(proposal.source) not in (digest(one), digest(other)) for proposal in found)


@pytest.mark.parametrize("sources", [(seed("gelu"),), (seed("gelu"), seed("gelu")), (seed("gelu"), "x = ("), ("", "")])
async def test_nothing_to_cross(sources):
    assert await Cross().propose(context(*sources)) is None
