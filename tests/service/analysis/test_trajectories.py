"""Trajectories hold what a search did, and nothing that was not found; rewards are what the documentation says."""

import json
from math import log
from pathlib import Path
from typing import Any

import pytest

from archive.records import LlmReply, MeasuredBaselines, SearchRecord
from archive.store import Store
from service.analysis.trajectories import RAN, Trajectory, reward, reward_over, trajectories
from tests.archive.samples import new_exchange
from tests.archives import opened
from tests.service.lineages import SEED, Made, measured, stored
from workers.protocol import PROTOCOL_VERSION, Outcome

ROOT = Path(__file__).parent.parent.parent.parent
MADE = (
    SEED,
    Made("gained", 8.0),
    Made("lost", 12.5),
    Made("wrong", 8.0, outcome=Outcome.WRONG_RESULT),
    Made("broken", None, outcome=Outcome.COMPILE_ERROR),
    Made("unclear", None, outcome=Outcome.WORKER_LOST),
)


async def exported(folder: Path, *made: Made, **options: Any) -> list[Trajectory]:
    async with opened(folder) as store:
        search = await stored(store, made)
        return [record async for record in trajectories(store, search, **options)]


async def test_every_judged_step_is_a_record(tmp_path: Path) -> None:
    found = await exported(tmp_path, *MADE)
    assert [record.outcome for record in found] == [
        "correct",
        "correct",
        "correct",
        "wrong_result",
        "compile_error",
        "worker_lost",
    ]
    gained = found[1]
    assert (gained.step, gained.emitter, gained.note) == (1, "tune", "num_warps 8 -> 4")
    assert gained.source.endswith("# gained\n")
    assert [parent.source.rpartition("# ")[2] for parent in gained.parents] == ["seed\n"]
    assert gained.parents[0].report != gained.report
    assert gained.gain_over_parent is not None and gained.gain_over_seed is not None
    assert gained.gain_over_parent.low == gained.gain_over_seed.high == pytest.approx(1.25)
    assert (gained.readings_before["num_warps"], gained.readings_after["num_warps"]) == (8, 4)
    assert (gained.provenance, gained.protocol_version) == ("predicted", PROTOCOL_VERSION)
    assert (gained.configuration, gained.reward, gained.speedup_relative_to) == ({"BLOCK": 128}, None, "seed kernel")


async def test_what_never_came_to_a_report_says_so(tmp_path: Path) -> None:
    broken = (await exported(tmp_path, *MADE))[4]
    assert (broken.report, broken.variant, broken.protocol_version, broken.readings_after) == (None, None, None, {})
    assert (broken.gain_over_parent, broken.gain_over_seed, broken.reason) == (None, None, "about broken")


async def test_gains_are_correct_and_certain(tmp_path: Path) -> None:
    assert [record.note for record in await exported(tmp_path, *MADE, which="gains")] == ["num_warps 8 -> 4"]


async def test_rewards_follow_the_outcome(tmp_path: Path) -> None:
    found = await exported(tmp_path, *MADE, rewards=True)
    assert [record.reward for record in found] == [
        pytest.approx(0.0),
        pytest.approx(log(1.25)),
        pytest.approx(log(0.8)),
        -0.5,
        -1.0,
    ]


@pytest.mark.parametrize("low, earned", [(100.0, 1.0), (0.01, -0.25), (1.2, log(1.2))])
async def test_rewards_of_correct_kernels_are_cut(tmp_path: Path, low: float, earned: float) -> None:
    found = await exported(tmp_path, SEED, Made("a", 10.0 / low))
    assert reward(found[1]) == pytest.approx(earned)


async def test_a_wrong_kernel_never_earns_more_than_a_slow_one(tmp_path: Path) -> None:
    (record,) = await exported(tmp_path, SEED)
    for outcome in Outcome:
        earned = reward(record.model_copy(update={"outcome": outcome.value}))
        if outcome is not Outcome.CORRECT and earned is not None:
            assert earned == (-0.5 if outcome in RAN else -1.0)


async def test_prompts_and_answers_come_along(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        search = await stored(store, (SEED, Made("a", 8.0, emitter="llm", note="fewer warps")))
        await _asked(store, search, 1)
        found = [record async for record in trajectories(store, search)]
    assert found[0].exchanges == ()
    (asked,) = found[1].exchanges
    assert (asked.system, asked.prompt, asked.answer, asked.model) == ("be brief", "improve this", "done", "a person")
    assert (asked.backend, asked.strategy, asked.template, asked.output_tokens) == ("manual", "improve", "t-1", 7)


async def test_each_device_has_its_own_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        seed = Made("seed", parents=(), emitter="seed", changes=measured(0.9, 1.1))
        search = await stored(store, (seed, Made("a", changes=measured(1.5, 1.6))), devices=("h200",))
        found = [record async for record in trajectories(store, search)]
        await store.searches.relate(search.id, "h200", MeasuredBaselines())
        related = [record async for record in trajectories(store, await store.searches.get(search.id))]
    assert [(record.device, record.provenance, record.speedup_relative_to) for record in [*found, *related]] == [
        *[("h200", "measured", "seed kernel")] * 2,
        *[("h200", "measured", "best baseline")] * 2,
    ]
    assert found[1].speedup is not None and found[1].speedup.low == 1.5


async def test_the_documented_schema_and_example_hold(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "trajectories.md").read_text()
    example = page.partition("```json\n")[2].partition("```")[0]
    record = Trajectory.model_validate_json(example)
    assert json.loads(record.model_dump_json()) == json.loads(example)
    fields = Trajectory.model_json_schema()["properties"]
    assert [name for name in fields if f"| `{name}` |" not in page] == []
    assert [outcome.value for outcome in RAN if f"`{outcome.value}`" not in page] == []


async def _asked(store: Store, search: SearchRecord, ordinal: int) -> None:
    exchange = await store.exchanges.open(
        new_exchange(
            search.id, ordinal, backend="manual", template="t-1", system="be brief", user="improve this", max_tokens=100
        )
    )
    await store.exchanges.answer(exchange.id, LlmReply("done", "a person", 3, 7, None))


async def test_the_reward_of_a_step_over_its_parent_is_that_of_the_trajectory(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        search = await stored(store, MADE)
        told = [record async for record in trajectories(store, search, rewards=True)]
        for record in told[1:]:
            candidate = await store.candidates.get(record.candidate)
            found = await reward_over(store, search, candidate, record.parents[0].candidate, record.device)
            assert (found.outcome, found.reward) == (record.outcome, record.reward)
            assert found == await reward_over(store, search, candidate, None, record.device), "the seed is the parent"


async def test_steps_of_an_operator_that_mutation_testing_fails_are_marked_and_earn_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        search = await stored(store, MADE)
        await store.searches.set_admitted(search.id, "the checks take 'zeros' for right")
        search = await store.searches.get(search.id)
        told = [record async for record in trajectories(store, search)]
        assert {record.admitted for record in told} == {"the checks take 'zeros' for right"}
        assert [record async for record in trajectories(store, search, "gains")] == []
        assert [record async for record in trajectories(store, search, rewards=True)] == []
        candidate = await store.candidates.get(told[1].candidate)
        assert (await reward_over(store, search, candidate, None, told[1].device)).reward is None
