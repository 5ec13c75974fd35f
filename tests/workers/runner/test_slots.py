import pytest

from tests.workers.runner.plans import ARENA_BYTES, bundle_of, kernel, slots_of
from workers.commands import RunSlot
from workers.protocol import Bundle
from workers.runner.slots import CannotRun, SlotLayout

SCRATCH = kernel(global_scratch_bytes=64, num_ctas=2)


def layout_of(bundle: Bundle) -> SlotLayout:
    return SlotLayout(bundle, bundle.plans[0])


def changed(slot: RunSlot, **fields: object) -> RunSlot:
    return slot.model_copy(update=fields)


@pytest.mark.parametrize("of", [kernel(), SCRATCH, kernel(profile_scratch_bytes=8)])
def test_slots_as_they_are_placed_hold_their_plan(of) -> None:
    bundle = bundle_of(of)
    for slot in slots_of(bundle, 5):
        assert layout_of(bundle).check(slot, ARENA_BYTES) is None


def test_a_slot_beyond_the_arena_is_refused() -> None:
    bundle = bundle_of(kernel())
    (slot,) = slots_of(bundle)
    with pytest.raises(CannotRun, match=f"ends at byte {slot.end} of an arena of {slot.end - 1}"):
        layout_of(bundle).check(slot, slot.end - 1)


def misplaced(slot: RunSlot) -> dict[str, RunSlot]:
    first, second, third = slot.buffers
    low = min(slot.buffers)
    return {
        "one buffer too few": changed(slot, buffers=(first, second)),
        "one launch too many": changed(slot, scratch=(*slot.scratch, (-1, -1))),
        "two in one place": changed(slot, buffers=(first, first, third)),
        "not aligned": changed(slot, buffers=tuple(at + 16 * (at == max(slot.buffers)) for at in slot.buffers)),
        "before the slot": changed(slot, start=low + 256),
        "before the arena": changed(slot, buffers=tuple(-256 if at == low else at for at in slot.buffers)),
        "beyond the end": changed(slot, end=max(slot.buffers)),
        "in a red zone": changed(slot, zones=((low, 16), *slot.zones)),
        "a zone beyond the end": changed(slot, zones=(*slot.zones, (slot.end, 16))),
        "a zone of less than nothing": changed(slot, zones=((slot.start, -5),)),
        "scratch in a buffer": changed(slot, scratch=((low, -1),)),
        "no scratch": changed(slot, scratch=((-1, -1),)),
    }


@pytest.mark.parametrize("mistake", list(misplaced(slots_of(bundle_of(SCRATCH))[0])))
def test_a_slot_for_something_else_is_not_used(mistake: str) -> None:
    bundle = bundle_of(SCRATCH)
    wrong = misplaced(slots_of(bundle)[0])[mistake]
    with pytest.raises(ValueError, match="slot"):
        layout_of(bundle).check(wrong, ARENA_BYTES)


def test_all_but_the_inputs_is_poisoned() -> None:
    bundle = bundle_of(SCRATCH)
    (slot,) = slots_of(bundle)
    layout = layout_of(bundle)
    assert layout.inputs == 1
    assert layout.poisoned(slot) == [
        (slot.buffers[1], 1200),
        (slot.buffers[2], 1200),
        (slot.scratch[0][0], 64 * 3 * 2),
    ]
