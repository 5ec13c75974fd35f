from collections.abc import Iterator

import pytest
import torch

from tests.workers.runner.plans import COUNT, OPERATOR, arena, bundle_of, kernel, machine_code, slots_of, supported
from workers.commands import TIMED, InputContent, RunCase, RunSlot
from workers.device_kernels import stream_seed, timed_content, zone_seed
from workers.devices.trial import POISONS
from workers.inputs import draw
from workers.protocol import Kernel
from workers.runner.arena import Arena
from workers.runner.filling import SlotFiller
from workers.runner.loaded_plans import LoadedPlan
from workers.runner.replay import LoadedKernels, ReplayedPlan

SEED = "ab" * 16
SCRATCH = kernel(global_scratch_bytes=64)


def entrant_of(of: Kernel, memory: Arena) -> LoadedPlan:
    bundle = bundle_of(of)
    plan = bundle.plans[0]
    loaded = ReplayedPlan(LoadedKernels(bundle, machine_code(bundle)), plan, memory)
    return LoadedPlan(OPERATOR, loaded, timed_content(OPERATOR, plan.shape))


@pytest.fixture
def filled() -> Iterator[tuple[Arena, SlotFiller, LoadedPlan, RunSlot]]:
    with supported() as (_, support):
        memory = arena()
        yield (
            memory,
            SlotFiller(support, memory, 5),
            entrant_of(SCRATCH, memory),
            slots_of(bundle_of(SCRATCH), start=512)[0],
        )


def values(memory: Arena, offset: int, size: int) -> set[int]:
    return set(memory.tensor(offset, size).tolist())


def case(slot: RunSlot, draw: str, stream: int = 0, poison: int = 0xFF) -> RunCase:
    return RunCase(plan=0, slot=slot, content=InputContent(draw=draw, seed=SEED, stream=stream), poison=poison)


def check_surroundings(memory: Arena, slot: RunSlot, seed: str, poison: int = 0xFF) -> None:
    """All that is no input is poisoned, and red zones have their pattern, from the first byte to the last."""
    for buffer in slot.buffers[1:]:
        assert values(memory, buffer, 4 * COUNT) == {poison}
    assert values(memory, slot.scratch[0][0], 64 * 3) == {poison}
    for offset, size in slot.zones:
        assert values(memory, offset, size) == {zone_seed(seed) & 0xFF}
    assert values(memory, 0, slot.start) == {0}
    assert values(memory, slot.end, 512) == {0}


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("name", ["normal", "structured", "planted", "heavy"])
def test_a_draw_is_what_the_checker_draws_and_the_rest_is_poison(filled, name: str, poison: int) -> None:
    memory, filler, loaded_plan, slot = filled
    filler.fill([(loaded_plan, case(slot, name, poison=poison))], SEED)
    (expected,) = draw(OPERATOR, loaded_plan.plan.shape, name, bytes.fromhex(SEED))
    seen = memory.tensor(slot.buffers[0], 4 * COUNT)
    assert torch.equal(seen, expected.view(torch.uint8))
    check_surroundings(memory, slot, SEED, poison)


def test_timed_content_follows_from_seed_and_stream(filled) -> None:
    memory, filler, loaded_plan, slot = filled
    filler.fill([(loaded_plan, case(slot, TIMED, 3))], SEED)
    assert values(memory, slot.buffers[0], 4 * COUNT) == {stream_seed(SEED, 0, 3) & 0xFF}
    check_surroundings(memory, slot, SEED)


def test_an_unknown_draw_is_refused(filled) -> None:
    _, filler, loaded_plan, slot = filled
    with pytest.raises(ValueError, match="no draw"):
        filler.fill([(loaded_plan, case(slot, "biased"))], SEED)


def test_slots_are_refilled_with_a_stream_each(filled) -> None:
    memory, filler, loaded_plan, _ = filled
    slots = slots_of(bundle_of(SCRATCH), 3)
    refill = filler.prepare(loaded_plan, slots, SEED, (4, 0, 9))
    assert values(memory, slots[0].start, 1000) == {0}
    filler.refill(refill)
    for slot, stream in zip(slots, (4, 0, 9), strict=True):
        assert values(memory, slot.buffers[0], 4 * COUNT) == {stream_seed(SEED, 0, stream) & 0xFF}
        assert values(memory, slot.buffers[1], 4 * COUNT) == {0xFF}
        assert all(values(memory, offset, size) == {0} for offset, size in slot.zones)


def test_a_slot_is_not_filled_twice_with_one_stream_too_few(filled) -> None:
    _, filler, loaded_plan, slot = filled
    with pytest.raises(ValueError, match="shorter"):
        filler.prepare(loaded_plan, [slot, slot], SEED, (1,))
