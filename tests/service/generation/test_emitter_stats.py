"""Accounts of emitters, as the archive has them."""

from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path

import pytest

from archive.records import NewCandidate, NewSearch, Offer, SearchRecord, StrategyStatsRecord
from archive.store import Store
from service.generation.emitter_stats import active, emitter_shares, read_stats, spent_share
from tests.archives import opened
from tests.service import records


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(tmp_path) as store:
        await store.operators.put(records.OPERATOR.digest, records.OPERATOR.name, records.OPERATOR.model_dump_json())
        yield store


async def begun(store: Store, **changes: object) -> SearchRecord:
    template = records.search(**changes)
    return await store.searches.create(
        NewSearch(**{item.name: getattr(template, item.name) for item in fields(NewSearch)})
    )


async def judged(
    store: Store,
    search: SearchRecord,
    number: int,
    emitter: str,
    objective: float | None,
    cell: int = 0,
    note: str = "",
) -> None:
    id = f"c{number}"
    new = NewCandidate(
        id, search.id, number, emitter, f"x = {number}", f"d{number}", f"t{number}", ("p",), note or f"note {number}"
    )
    await store.candidates.add(new)
    await store.candidates.judge(id, "correct" if objective else "compile_error", "", None, objective)
    if objective is not None:
        await store.elites.offer(
            Offer(
                search=search.id,
                device=records.DEVICE,
                axes_version=search.axes_version,
                cell=cell,
                coordinates={},
                candidate=id,
                variant=0,
                bundle=f"b{number}",
                job=f"j{number}",
                emitter=emitter,
                objective=objective,
                low=objective,
                mid=objective,
                high=objective,
            )
        )


async def test_gains_are_those_of_won_cells_and_costs_are_evaluations(store: Store) -> None:
    search = await begun(store, emitters=("tune", "rewrite"))
    await judged(store, search, 0, "tune", 1.0)
    await judged(store, search, 1, "tune", 1.5)
    await judged(store, search, 2, "tune", 1.2)
    await judged(store, search, 3, "rewrite", None)
    stats = await read_stats(store, search)
    tune, rewrite = stats.accounts["tune"], stats.accounts["rewrite"]
    assert (tune.tries, tune.cost, tune.promotions, tune.gain) == (3, 3.0, 2, pytest.approx(1.5))
    assert (rewrite.tries, rewrite.promotions, rewrite.gain) == (1, 0, 0.0)
    assert [(trial.note, trial.gain, trial.parents) for trial in stats.trials["tune"]] == [
        ("note 2", None, ("p",)),
        ("note 1", pytest.approx(0.5), ("p",)),
        ("note 0", pytest.approx(1.0), ("p",)),
    ]


async def test_what_plants_has_no_account(store: Store) -> None:
    search = await begun(store, emitters=("seed", "tune"))
    assert active(search) == ["tune"]
    assert (await read_stats(store, search)).accounts.keys() == {"tune"}


@pytest.mark.parametrize(
    ("terms", "share"),
    [({}, 0.0), ({"usd": 4.0}, 0.5), ({"usd": 4.0, "calls": 10}, 1.0), ({"usd": None, "tokens": 1000}, 0.3)],
)
def test_money_counts_as_the_share_of_its_limit(terms: dict[str, object], share: float) -> None:
    arms = [
        StrategyStatsRecord("s", "a", "improve", 6, 200, 1.0, 0, 3),
        StrategyStatsRecord("s", "a", "scratch", 4, 100, 1.0, 0, 1),
    ]
    assert spent_share(terms, arms) == pytest.approx(share)


async def test_turns_are_shared_by_what_was_gained_and_say_what_rests(store: Store) -> None:
    search = await begun(store, emitters=("tune", "rewrite"))
    for number in range(6):
        await judged(store, search, number, "tune", 1.0 + number)
    for number in range(6, 10):
        await judged(store, search, number, "rewrite", None, note="backward")
    tune, rewrite = emitter_shares(await read_stats(store, search))
    assert tune.share > 0.7 and tune.share + rewrite.share == pytest.approx(1.0)
    assert (tune.suspended, rewrite.suspended) == ({}, {"backward": "4 of 4 trials ended in compile_error"})


async def test_without_the_bandit_all_get_as_many_turns(store: Store) -> None:
    search = await begun(store, emitters=("tune", "rewrite"), selection={"bandit": False, "screening": False})
    for number in range(6):
        await judged(store, search, number, "tune", 1.0 + number)
    stats = await read_stats(store, search)
    assert [turn.share for turn in emitter_shares(stats)] == pytest.approx([0.5, 0.5], abs=0.1)
    assert len(stats.trials["tune"]) == 6
