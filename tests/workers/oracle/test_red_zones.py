"""Where the damage is, in words: after or before which buffer."""

import pytest

from tests.workers.checks.cases import HONEST, operator
from tests.workers.oracle.stage import SEED, Stage
from workers.commands import InputContent
from workers.oracle.red_zones import describe_damage

CONTENT = InputContent(draw="normal", seed=SEED)


def played(stage, count=1):
    return [stage.play(HONEST["rmsnorm"], slot, CONTENT) for slot in stage.slots(count)]


def test_untouched_zones_are_silent():
    stage = Stage(operator("rmsnorm"))
    assert describe_damage(stage.card, stage.operator, played(stage, 3), SEED) is None


@pytest.mark.parametrize(("buffer", "name"), [(0, "input 'x'"), (1, "input 'weight'"), (2, "output 'y'")])
@pytest.mark.parametrize("side", ["after the end", "before the start"])
def test_damage_is_described_by_its_neighbour(buffer, name, side):
    stage = Stage(operator("rmsnorm"))
    (run,) = played(stage)
    start = run.slot.buffers[buffer]
    place = start + run.plan.buffers[buffer].bytes if side == "after the end" else start - 3
    stage.card.arena[place : place + 3] ^= 0x55
    said = describe_damage(stage.card, stage.operator, [run], SEED)
    assert said == f"it writes 3 bytes outside its buffers, {side} of {name} (M=48,N=96): mask its stores"


def test_damage_of_any_run_is_found():
    stage = Stage(operator("rmsnorm"))
    runs = played(stage, 4)
    stage.card.arena[runs[2].slot.end - 1] ^= 1
    assert "1 bytes outside its buffers" in describe_damage(stage.card, stage.operator, runs, SEED)


def test_the_pattern_of_another_seed_is_damage():
    stage = Stage(operator("rmsnorm"))
    assert describe_damage(stage.card, stage.operator, played(stage), "00" + SEED[2:]) is not None
