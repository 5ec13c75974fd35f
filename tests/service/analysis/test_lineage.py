"""Every step of a search is read back beside its parents, with gains that claim no more than was found."""

from pathlib import Path
from typing import Any

import pytest

from archive.records import SearchRecord
from service.analysis import lineage as subject
from service.analysis.lineage import Lineage, LineageStep
from service.evaluation.jobs import confirm_id
from tests.archives import opened
from tests.service import records
from tests.service.lineages import SEED, Made, measured, named, stored
from workers.protocol import Outcome, Ratio

CARD = "h200"


async def read(folder: Path, *made: Made, **changes: Any) -> tuple[Lineage, dict[str, LineageStep]]:
    """The steps of a search over `made`, by the names of their candidates."""
    async with opened(folder) as store:
        search = await stored(store, made, **changes)
        lineage = await Lineage.open(store, search)
        steps = [step async for step in lineage.steps()]
    assert [step.child.candidate.ordinal for step in steps] == list(range(len(made)))
    return lineage, {step.child.candidate.id.rpartition(":")[2]: step for step in steps}


async def test_steps_come_with_their_parents(tmp_path: Path) -> None:
    _, steps = await read(tmp_path, SEED, Made("a"), Made("b", parents=("a", "seed")))
    assert steps["seed"].parents == ()
    assert [parent.candidate.note for parent in steps["b"].parents] == ["num_warps 8 -> 4", "seed 0"]
    standing = steps["a"].child.standings[records.DEVICE]
    assert standing.configuration == {"BLOCK": 128}
    assert standing.readings["num_warps"] == 4


async def test_a_gain_is_over_the_best_parent(tmp_path: Path) -> None:
    lineage, steps = await read(
        tmp_path, SEED, Made("a", 8.0), Made("b", 5.0, parents=("seed", "a")), Made("c", 20.0, parents=("a",))
    )
    ratio, parent = lineage.over_parents(steps["b"], records.DEVICE) or pytest.fail("no gain")
    assert (ratio.low, parent.candidate.id.rpartition(":")[2]) == (pytest.approx(1.6), "a")
    worse = lineage.over_parents(steps["c"], records.DEVICE)
    assert worse is not None and worse[0].high == pytest.approx(0.4)
    over_seed = lineage.over_seed(steps["b"].child, records.DEVICE)
    assert over_seed is not None and over_seed.mid == pytest.approx(2.0)


async def test_what_is_not_correct_gains_nothing(tmp_path: Path) -> None:
    lineage, steps = await read(
        tmp_path,
        SEED,
        Made("wrong", 5.0, outcome=Outcome.WRONG_RESULT),
        Made("broken", None, outcome=Outcome.COMPILE_ERROR),
        Made("child", 5.0, parents=("wrong",)),
    )
    assert all(lineage.over_parents(steps[name], records.DEVICE) is None for name in ("wrong", "broken", "child"))
    assert steps["broken"].child.standings == {}
    assert lineage.over_seed(steps["child"].child, records.DEVICE) is not None


async def test_measured_gains_are_bounded_by_the_worst_of_both(tmp_path: Path) -> None:
    lineage, steps = await read(
        tmp_path,
        Made("seed", parents=(), emitter="seed", changes=measured(0.9, 1.1)),
        Made("a", changes=measured(1.1, 1.3)),
        devices=(CARD,),
    )
    ratio, _ = lineage.over_parents(steps["a"], CARD) or pytest.fail("no gain")
    assert (ratio.low, ratio.mid, ratio.high) == (pytest.approx(1.0), pytest.approx(1.2), pytest.approx(1.3 / 0.9))


async def test_a_race_against_the_parent_itself_counts(tmp_path: Path) -> None:
    race = Ratio(low=1.05, mid=1.06, high=1.07)
    seed = records.bundle(1).identity
    lineage, steps = await read(
        tmp_path,
        Made("seed", parents=(), emitter="seed", changes=measured(0.9, 1.1)),
        Made("a", changes=measured(1.0, 1.2, kind="confirm", job=confirm_id("a", 0, CARD, seed), rival=race)),
        Made("b", changes=measured(1.0, 1.2, kind="confirm", job=confirm_id("b", 0, CARD, "other"), rival=race)),
        devices=(CARD,),
    )
    assert (lineage.over_parents(steps["a"], CARD) or pytest.fail("no gain"))[0] == race
    assert (lineage.over_parents(steps["b"], CARD) or pytest.fail("no gain"))[0] != race


async def test_a_long_search_is_read_by_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PAGE", 3)
    monkeypatch.setattr(subject, "PARENTS_KEPT", 2)
    chain = [
        Made(f"c{number}", 10.0 - number, parents=(f"c{number - 1}" if number else "seed",)) for number in range(8)
    ]
    lineage, steps = await read(tmp_path, SEED, *chain)
    gains = [lineage.over_parents(steps[made.name], records.DEVICE) for made in chain[1:]]
    assert all(gain is not None and gain[0].low > 1 for gain in gains)


async def test_a_parent_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    _, steps = await read(tmp_path, SEED, Made("a", parents=("nobody", "seed")))
    assert len(steps["a"].parents) == 1


async def test_a_search_without_a_seed_has_no_gains_over_it(tmp_path: Path) -> None:
    lineage, steps = await read(tmp_path, Made("a", parents=()))
    assert lineage.over_seed(steps["a"].child, records.DEVICE) is None


async def test_candidates_are_read_by_id(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        search: SearchRecord = await stored(store, (SEED,))
        lineage = await Lineage.open(store, search)
        found = await lineage.judged([named(search, "seed"), "nobody"])
    assert list(found) == [named(search, "seed")]
