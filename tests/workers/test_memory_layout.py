from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.checks.cases import operator
from workers.memory_layout import (
    ALIGNMENT,
    JITTER,
    ZONE_BYTES,
    ArenaFull,
    MemoryPiece,
    outside,
    pieces_of,
    place,
    slot_bytes,
    written,
)
from workers.protocol import Allocate, Buffer, Bundle, Kernel, Launch, Operator, Plan, Shape


def bundle_of(sizes: list[int], scratch: int = 0, profile: int = 0, align: int = 128, ctas: int = 1) -> Bundle:
    """A plan of so many buffers that launches a kernel with scratch twice."""
    kernel = Kernel(
        language="ptx",
        assembly="",
        target="sm_90",
        num_warps=4,
        num_ctas=ctas,
        global_scratch_bytes=scratch,
        global_scratch_align=align,
        profile_scratch_bytes=profile,
    )
    launches = [Launch(kernel=kernel.digest, grid=grid, arguments=(), function="f") for grid in ((3, 2, 1), (5, 1, 1))]
    plan = Plan(
        shape=Shape(dims={"N": 1}),
        buffers=tuple(Buffer(id=index, bytes=size) for index, size in enumerate(sizes)),
        steps=(*(Allocate(buffer=index) for index in range(len(sizes))), *launches),
        outputs=(),
    )
    return Bundle(target="sm_90", operator="0" * 64, kernels={kernel.digest: kernel}, plans=(plan,))


def covered(bundle: Bundle, slot) -> list[tuple[int, int]]:
    """Everything that has a place in a slot, in order of its offset."""
    buffers, scratch = pieces_of(bundle, bundle.plans[0])
    found = [(offset, piece.bytes) for offset, piece in zip(slot.buffers, buffers, strict=True)]
    for offsets, pieces in zip(slot.scratch, scratch, strict=True):
        found += [(offset, piece.bytes) for offset, piece in zip(offsets, pieces, strict=True) if offset >= 0]
    return sorted([*found, *slot.zones])


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    scratch=st.sampled_from([0, 48]),
    profile=st.sampled_from([0, 16]),
    align=st.sampled_from([1, 128, 512, 4096]),
    start=st.integers(0, 5000),
    count=st.integers(1, 3),
    seed=st.integers(),
)
def test_slots_are_covered_without_gap_or_overlap(sizes, scratch, profile, align, start, count, seed) -> None:
    bundle = bundle_of(sizes, scratch, profile, align)
    slots = place(bundle, bundle.plans[0], count, Random(seed), start=start, limit=2**40, zone_bytes=1000)
    at = start
    for slot in slots:
        assert at <= slot.start < at + ALIGNMENT
        at = slot.start
        for offset, size in covered(bundle, slot):
            assert offset == at
            at += size
        assert at == slot.end
        assert slot.end - slot.start <= slot_bytes(bundle, bundle.plans[0], 1000)


@given(align=st.sampled_from([1, 96, 512, 4096]), seed=st.integers())
def test_pieces_are_aligned(align: int, seed: int) -> None:
    bundle = bundle_of([100, 7], 48, 16, align)
    (slot,) = place(bundle, bundle.plans[0], 1, Random(seed), start=1, limit=2**40)
    assert all(offset % ALIGNMENT == 0 for offset in (*slot.buffers, *(pair[1] for pair in slot.scratch)))
    assert all(pair[0] % align == 0 and pair[0] % ALIGNMENT == 0 for pair in slot.scratch)


@given(seed=st.integers())
def test_red_zones_are_wide_and_of_random_width(seed: int) -> None:
    bundle = bundle_of([100, 7])
    (slot,) = place(bundle, bundle.plans[0], 1, Random(seed), start=0, limit=2**40)
    assert len(slot.zones) == 3
    assert all(ZONE_BYTES <= size <= ZONE_BYTES + (JITTER + 1) * ALIGNMENT for _, size in slot.zones)


def test_no_two_layouts_are_alike() -> None:
    bundle = bundle_of([100, 7, 3000])
    slots = place(bundle, bundle.plans[0], 50, Random(1), start=0, limit=2**40)
    shapes = {tuple(offset - slot.start for offset in slot.buffers) for slot in slots}
    orders = {tuple(sorted(range(3), key=lambda index: slot.buffers[index])) for slot in slots}
    assert len(shapes) == 50
    assert len(orders) == 6


def test_scratch_is_recorded_size_by_programs_by_blocks() -> None:
    bundle = bundle_of([1], 48, 16, 512, ctas=2)
    _, scratch = pieces_of(bundle, bundle.plans[0])
    assert scratch == (
        (MemoryPiece(48 * 6 * 2, 512), MemoryPiece(16 * 6 * 2)),
        (MemoryPiece(48 * 5 * 2, 512), MemoryPiece(16 * 5 * 2)),
    )


def test_scratch_that_is_not_taken_has_no_place() -> None:
    bundle = bundle_of([1], 0, 16)
    (slot,) = place(bundle, bundle.plans[0], 1, Random(1), start=0, limit=2**40)
    assert [pair[0] for pair in slot.scratch] == [-1, -1]
    assert all(pair[1] > 0 for pair in slot.scratch)


@pytest.mark.parametrize(
    ("other", "left"),
    [
        ((512, 768), ((256, 512), (768, 1024))),
        ((0, 512), ((512, 1024),)),
        ((768, 4096), ((256, 768),)),
        ((0, 4096), ()),
        ((0, 256), ((256, 1024),)),
        ((2048, 4096), ((256, 1024),)),
    ],
)
def test_what_of_a_stretch_lies_outside_of_another(other, left) -> None:
    assert outside((256, 1024), other) == left


def test_an_arena_may_be_too_small() -> None:
    bundle = bundle_of([100_000])
    plan = bundle.plans[0]
    most = slot_bytes(bundle, plan)
    assert len(place(bundle, plan, 3, Random(1), start=0, limit=3 * most)) == 3
    with pytest.raises(ArenaFull, match="more than the arena of 200000 bytes"):
        place(bundle, plan, 3, Random(1), start=0, limit=200_000)


@pytest.mark.parametrize("mutable", [False, True])
@pytest.mark.parametrize("sizes", [[300, 700, 0, 256], [256, 0, 512]])
def test_a_run_may_write_to_all_but_red_zones_and_inputs_that_stay(sizes: list[int], mutable: bool) -> None:
    given = operator("gelu").model_dump(mode="json")
    given["inputs"][0]["mutable"] = mutable
    bundle = bundle_of(sizes, scratch=48, profile=16)
    for slot in place(bundle, bundle.plans[0], 20, Random(1), start=0, limit=2**40, zone_bytes=1000):
        pieces = set(covered(bundle, slot)) - set(slot.zones)
        expected = {(offset, offset + size) for offset, size in pieces if size}
        if not mutable:
            expected -= {(slot.buffers[0], slot.buffers[0] + sizes[0])}
        assert set(written(Operator.model_validate(given), slot)) == expected
