"""Rounds of prompts and answers, figures at equal evaluations and equal device time, and recordings that are read."""

import argparse
import json
import lzma
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchRecord
from benchmarks import models
from benchmarks.models import RECORDING, SearchFigures, conclude, judged, post, prompts, request_of, results, summary
from benchmarks.record import RESULTS
from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.answers import read_answer
from service.llm import Completion, LlmPrompt, Replay
from service.operators.catalogue import load_catalogue, parse_operator
from tests.service import records
from tests.service.asked import SEED, Asked
from tests.service.workbench import Answers
from workers.protocol import Outcome

TRIAL = Path(__file__).parent / "files" / RECORDING
"""Four answers of a trial on `model:sm_90`: a file, edits, a wrong kernel, and a text without code."""
STRATEGIES = ["scratch", "improve", "explore"]


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))
    asked = await Asked.open(tmp_path, redis_url, in_flight=3)
    asked.bench.answers = Answers(
        bundle=lambda source: None if "broken" in source else records.bundle_from(source),
        time_us=lambda bundle: 4.0 + int(bundle[:4], 16) / 10_000,
    )
    yield asked
    await asked.close()


async def begin(asked: Asked) -> SearchRecord:
    return await asked.begin(evaluations=100, terms={"strategies": STRATEGIES})


async def until(asked: Asked, search: SearchRecord, *, waiting: int, evaluated: int) -> SearchRecord:
    """Go on until so many prompts wait and so many candidates have a verdict."""
    for _ in range(200):
        search = await asked.step(search)
        counts = await asked.bench.store.candidates.count(search.id)
        if len(await asked.waiting(search)) >= waiting and counts.evaluated >= evaluated and not counts.in_flight:
            return search
    raise AssertionError("prompts or verdicts are missing")


def options(folder: Path, **more: object) -> argparse.Namespace:
    return argparse.Namespace(data=folder, out=folder / "out", **more)


def answer(folder: Path) -> list[str]:
    """Answer three prompts: by a kernel, by one that does not compile, and without code. Returns their strategies."""
    files = sorted(folder.glob("*.md"))[:3]
    for number, file in enumerate(files):
        kernel = f"{SEED}\n\ndef {'broken' if number == 1 else 'plain'}_{number}():\n    return 0\n"
        said = "I cannot." if number == 2 else f"Change: number {number}\n\n```python\n{kernel}```\n"
        file.with_name(f"{file.stem}.answer.md").write_text(said)
    return [file.name.split(".")[1] for file in files]


def test_a_search_starts_from_the_first_seed_alone_and_asks_by_hand() -> None:
    catalogue = load_catalogue()["softmax"]
    request = request_of("softmax", "model:sm_90", model=True)
    assert isinstance(request.operator, dict)
    operator = parse_operator(request.operator)
    assert len(catalogue.seeds) > 1 and operator.seeds == catalogue.seeds[:1] and operator.baselines == ()
    assert request.llm is not None and request.llm.backends == ("manual",) and request.emitters == ("llm",)
    other = request_of("softmax", "model:sm_90", model=False)
    assert other.llm is None and other.emitters == models.RULES and other.operator == request.operator


async def test_prompts_are_written_answered_and_judged_and_what_came_of_them_is_concluded(
    asked: Asked, tmp_path: Path
) -> None:
    search = await until(
        asked, await asked.begin(evaluations=100, terms={"strategies": STRATEGIES}), waiting=3, evaluated=1
    )
    await prompts(options(tmp_path))
    tried = answer(tmp_path / "out")
    assert len(tried) == 3
    await post(options(tmp_path, model="someone"))
    assert not await judged(asked.bench.store, search.id, 0.0, 0.0)
    search = await until(asked, search, waiting=1, evaluated=3)
    await post(options(tmp_path, model="another"))  # What was answered is not answered again.

    await conclude(argparse.Namespace(data=[tmp_path], rules=[tmp_path], out=tmp_path / "out", card=""))
    written = json.loads((tmp_path / "out" / "models.json").read_text())
    (row,) = written["rows"]
    assert (row["answers"], row["evaluations"], row["correct"], row["models"]) == (3, 3, 2, ["someone"])
    assert row["first_try_valid"] == pytest.approx(1 / 3, abs=1e-4) and row["provenance"] == "predicted"
    assert row["cells"] >= 1 and row["best"] == row["over_seed"] >= 1.0 and row["tokens"] > 100
    assert row["hit_rate"] is None or "explore" in tried
    with lzma.open(tmp_path / "out" / RECORDING, "rt") as file:
        lines = [json.loads(line) for line in file]
    told = [(line["outcome"], line["verdict"], line["reason"].partition(":")[0]) for line in lines]
    assert sorted(told, key=str) == sorted(
        [("candidate", "correct", ""), ("candidate", "compile_error", ""), ("unusable", None, "no_code")], key=str
    )

    other = {"operator": "another", "answers": 5, "first_try_valid": 1.0, "first_tries": 5, "over_seed": 1.1}
    with lzma.open(tmp_path / "out" / RECORDING, "wt") as file:
        for each in (lines[0] | {"operator": "another"}, *lines, lines[0] | {"prompt": "unjudged", "verdict": None}):
            file.write(f"{json.dumps(each)}\n")
    for answers, cells in ((4, 99), (3, row["cells"])):
        earlier = [other, row | {"answers": answers, "cells": 99}]
        (tmp_path / "out" / "models.json").write_text(json.dumps({"rows": earlier}))
        await conclude(argparse.Namespace(data=[tmp_path], rules=[tmp_path], out=tmp_path / "out", card="a card"))
        rows = json.loads((tmp_path / "out" / "models.json").read_text())["rows"]
        assert rows[0] == other and [each["cells"] for each in rows[1:]] == [cells]
    assert rows[1]["card"] == "a card" and rows[1]["date"]
    found = models.read_recording(tmp_path / "out" / RECORDING)
    assert (len(found["another"]), len(found[lines[0]["operator"]])) == (1, 4), "lines of others stay"


async def test_figures_are_cut_at_evaluations_and_at_device_seconds(asked: Asked, tmp_path: Path) -> None:
    search = await until(
        asked, await asked.begin(evaluations=100, terms={"strategies": STRATEGIES}), waiting=3, evaluated=1
    )
    await prompts(options(tmp_path))
    answer(tmp_path / "out")
    await post(options(tmp_path, model=""))
    await until(asked, search, waiting=1, evaluated=3)
    (result,) = [each async for each in results(tmp_path)]
    assert isinstance(result, SearchFigures) and len(result.order) == 3
    assert result.after(1) == result.order[:1] and result.after(50) == result.order
    seconds = result.counts.device_ms / 1000
    assert result.within(seconds + 1.0) == result.order
    compiled = [id for id in result.order if id not in result.within(-1.0)]
    assert len(compiled) == 2, "a candidate that did not compile took no time on the device"
    assert result.figures(result.order[:1])["over_seed"] == 1.0 and result.figures(())["best"] is None
    row = {"operator": "double", "provenance": "predicted", "device": "d", "evaluations": 2, "seconds": seconds + 9.0}
    by_count, by_time = models.rule_rows(row, result)
    assert (by_count["equal"], by_count["evaluations"], by_count["reached"]) == ("evaluations", 2, True)
    assert (by_time["equal"], by_time["evaluations"], by_time["reached"]) == ("device_seconds", 3, False)


def test_the_summary_compares_operator_by_operator() -> None:
    def row(operator: str, over_seed: float, **more: object) -> models.Row:
        return {"operator": operator, "over_seed": over_seed, "answers": 4, **more}

    tried = {"first_try_valid": 0.75, "first_tries": 4}
    rows = [row("a", 1.5, **tried), row("b", 1.0, **tried)]
    rows += [row("a", 1.0, equal="evaluations", reached=True), row("b", 1.25, equal="evaluations", reached=False)]
    told = summary(rows)
    assert (told["operators"], told["answers"], told["first_try_valid"]) == (2, 8, 0.75)
    assert (told["evaluations"]["ahead"], told["evaluations"]["reached"]) == (1, 1)
    assert told["evaluations"]["geometric_mean"] == pytest.approx(1.2**0.5)
    assert told["device_seconds"] == {"compared": 0, "reached": 0, "ahead": 0, "geometric_mean": None}


@pytest.mark.parametrize("recording", [TRIAL, *RESULTS.glob(RECORDING)], ids=lambda path: path.parent.name)
async def test_recorded_answers_are_replayed_and_read_as_when_they_came(recording: Path, tmp_path: Path) -> None:
    text = lzma.decompress(recording.read_bytes()).decode()
    (tmp_path / "answers.jsonl").write_text(text)
    replay = Replay(tmp_path / "answers.jsonl")
    lines = [json.loads(line) for line in text.splitlines()]
    outcomes = set()
    for line in lines:
        completion = await replay.complete(LlmPrompt(**line["asked"]))
        assert completion == Completion(**line["completion"])
        outcomes.add(line["outcome"])
        try:
            parent = None if line["strategy"] == "scratch" else line["parent"]
            found = read_answer(completion.text, line["entry"], parent, as_module=line["as_module"])
        except UnusableAnswer as error:
            assert line["outcome"] == "unusable" and line["reason"] == f"{error.fault.value}: {error.sentence}"
        else:
            assert line["outcome"] in ("candidate", "duplicate") and line["source"] in (None, found.source)
    assert "candidate" in outcomes and any(line["verdict"] == Outcome.CORRECT for line in lines)
