"""What is said of a candidate that a coordinator elsewhere judged. `tests/journeys/test_remote.py` has one judge."""

import json
from typing import Any

import httpx
import pytest

from archive.records import CandidateState, SearchState
from kernelreef import AsyncReef, models
from service.api import builders
from service.cli.remote_judge import judge_elsewhere
from service.errors import InvalidInput
from tests.service import records
from workers.protocol import Device, Outcome

DEVICE = Device.parse(records.DEVICE)
OPERATOR = records.OPERATOR
SOURCE = records.SEED + "\nUNUSED = 1\n"
TIMES = {"seed": {"N=1024": 10.0, "N=4096": 20.0}, "candidate": {"N=1024": 5.0, "N=4096": 10.0}}


class There(httpx.AsyncBaseTransport):
    """A coordinator whose verdicts the test decides."""

    def __init__(self, outcome: str = "correct", state: str = "done", refused: tuple[str, ...] = ()) -> None:
        self.asked: dict[str, Any] = {}
        self._outcome, self._state, self._refused = outcome, state, refused

    @property
    def seeds(self) -> list[str]:
        return self.asked["operator"]["seeds"]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        match request.method, request.url.path.removeprefix("/api/v1").split("/")[1:]:
            case "POST", ["searches"]:
                self.asked = json.loads(await request.aread())
                return self._answer(self._search())
            case "GET", ["searches", _, "events"]:
                at = records.NOW.isoformat()
                return httpx.Response(
                    200, text=f'id: 1\nevent: search.changed\ndata: {{"at": "{at}", "state": "done"}}\n\n'
                )
            case "GET", ["searches", _]:
                return self._answer(self._search())
            case "GET", ["searches", _, "candidates"]:
                names = ("candidate", "seed")[-len(self.seeds) :]
                judged = {"state": CandidateState.JUDGED}
                items = [
                    models.CandidateSummary.model_validate(
                        records.candidate(id=name, outcome=self._outcome_of(name), **judged)
                    )
                    for name in names
                ]
                return httpx.Response(
                    200, json={"items": [item.model_dump(mode="json") for item in items], "next": None}
                )
            case "GET", ["candidates", id]:
                return self._answer(self._candidate(id))
        return httpx.Response(404)

    def _answer(self, document: models.Resource) -> httpx.Response:
        return httpx.Response(200, json=document.model_dump(mode="json"))

    def _outcome_of(self, id: str) -> str:
        if id == "seed":
            return "wrong_result" if self.seeds[0] in self._refused else "correct"
        return self._outcome

    def _search(self) -> models.Search:
        return builders.search_of(records.search(id="search", state=SearchState(self._state), reason="no worker"))

    def _candidate(self, id: str) -> models.Candidate:
        bundle = records.bundle(1)
        report = records.report(TIMES[id], candidate=id, bundle=bundle.identity, stages_s={"interpret": 0.5})
        plans = [
            models.PlanDescription(shape=shape.key, words=(), readings=records.readings(8).model_dump(mode="json"))
            for shape in records.SHAPES
        ]
        correct = self._outcome_of(id) == "correct"
        variant = models.Variant(
            index=0,
            configuration={"BLOCK": 64},
            bundle=bundle.identity if correct else None,
            outcome=None if correct else self._outcome,
            reason="" if correct else "no such name",
            line=None if correct else 3,
            plans=plans if correct else (),
        )
        outcome = "correct" if correct else self._outcome
        candidate = records.candidate(
            id=id, state=CandidateState.JUDGED, outcome=outcome, stages_s={"trace": 0.25, "interpret": 0.25}
        )
        return builders.candidate_of(candidate, [variant], [report.model_dump_json()] if correct else [])


def reach(there: There) -> AsyncReef:
    return AsyncReef("http://reef.example.org", transport=there)


async def test_a_correct_candidate_is_held_against_the_seed() -> None:
    there = There()
    judgement = await judge_elsewhere(reach(there), OPERATOR, DEVICE, SOURCE)
    assert there.seeds == [records.SEED, SOURCE] and there.asked["evaluations"] == 2
    assert judgement.outcome is Outcome.CORRECT and judgement.best is not None
    assert judgement.best.speedup is not None and judgement.best.speedup.mid == pytest.approx(2.0)
    assert judgement.best.coordinates["num_warps"]["value"] == 8
    assert judgement.stages_s == {"trace": 0.25, "interpret": 0.75}


async def test_a_failed_one_has_its_reason() -> None:
    judgement = await judge_elsewhere(reach(There("compile_error")), OPERATOR, DEVICE, SOURCE)
    assert (judgement.outcome, judgement.best) == (Outcome.COMPILE_ERROR, None)
    assert [(item.outcome, item.reason, item.line) for item in judgement.variants] == [
        (Outcome.COMPILE_ERROR, "no such name", 3)
    ]


async def test_the_seed_itself_is_judged_once() -> None:
    there = There()
    judgement = await judge_elsewhere(reach(there), OPERATOR, DEVICE, records.SEED + "# a word\n")
    assert there.seeds == [records.SEED]
    assert judgement.best is not None and judgement.best.speedup is not None
    assert judgement.best.speedup.mid == pytest.approx(1.0)


async def test_what_python_cannot_read_is_not_sent() -> None:
    there = There()
    judgement = await judge_elsewhere(reach(there), OPERATOR, DEVICE, "x = 1\ndef broken(:\n")
    assert (judgement.outcome, judgement.line, there.asked) == (Outcome.SYNTAX_ERROR, 2, {})


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_a_refused_seed_leaves_the_verdict_without_a_speedup(state: str) -> None:
    there = There(state=state, refused=(records.SEED,))
    judgement = await judge_elsewhere(reach(there), OPERATOR, DEVICE, SOURCE)
    assert judgement.outcome is Outcome.CORRECT and judgement.best is not None and judgement.best.speedup is None
    assert judgement.unpaced.startswith("no seed kernel is correct, so times are relative to nothing: ")
    more = OPERATOR.model_copy(update={"seeds": (records.SEED, "x = 1\n")})
    judgement = await judge_elsewhere(reach(There(refused=(records.SEED,))), more, DEVICE, SOURCE)
    assert judgement.unpaced == "" and judgement.best is not None and judgement.best.speedup is not None


async def test_an_operator_that_cannot_be_judged_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match="no worker"):
        await judge_elsewhere(reach(There(state="failed")), OPERATOR, DEVICE, SOURCE)
    with pytest.raises(InvalidInput, match="no seed kernel"):
        await judge_elsewhere(reach(There()), OPERATOR.model_copy(update={"seeds": ()}), DEVICE, SOURCE)
