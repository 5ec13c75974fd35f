"""`best` and `plan show` read the archive, and say so plainly when there is nothing to show."""

import asyncio
import importlib
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.descriptors import coordinates
from archive.records import NewCandidate, NewSearch, NewVariant, Offer, SearchRecord, TraceOutcome
from archive.store import Store
from kernelreef.packages import Package
from service.analysis.trajectories import Trajectory
from service.cli import app
from service.cli.export import lines_of, package_document, print_package
from service.errors import InvalidInput, NotFound
from service.evaluation.jobs import EvaluationCase
from service.evaluation.reports import record
from tests.archives import archive_in, opened
from tests.service import records
from tests.service.lineages import SEED, Made, stored

Reef = Callable[..., Result]


@pytest.fixture
def reef(tmp_path: Path) -> Reef:
    return lambda *arguments: CliRunner().invoke(
        app, list(arguments), env={"REEF_DATA_DIR": str(tmp_path), "COLUMNS": "200"}
    )


@pytest.fixture
def filled(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))


async def fill(folder: Path) -> None:
    """An archive with a search that found one elite."""
    store = await Store.open(archive_in(folder))
    operator, template, bundle = (
        records.OPERATOR,
        records.search(id=records.SEARCH_ID),
        records.bundle_from(records.SEED),
    )
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    await store.searches.create(NewSearch(**{item.name: getattr(template, item.name) for item in fields(NewSearch)}))
    await store.candidates.add(
        NewCandidate(records.CANDIDATE_ID, records.SEARCH_ID, 0, "seed", records.SEED, "d" * 64, "k" * 64, (), "seed 0")
    )
    readings = tuple(records.readings().model_dump(mode="json") for _ in records.SHAPES)
    variant = NewVariant(0, {}, None, "", None, bundle.identity, bundle.model_dump_json(), readings)
    await store.candidates.save_trace(records.CANDIDATE_ID, TraceOutcome(None, "", None, {}, (variant,)))
    place = {"search": records.SEARCH_ID, "candidate": records.CANDIDATE_ID, "bundle": bundle.identity}
    elite = records.elite(**place, coordinates=coordinates(readings[1]))
    await store.elites.offer(Offer(**{item.name: getattr(elite, item.name, None) for item in fields(Offer)}))
    await store.close()


async def judged_long_ago(folder: Path) -> None:
    """Add the report that the elite rests on, of the first protocol."""
    store = await Store.open(archive_in(folder))
    report = records.report(
        {"N=1024": 1.0},
        search=records.SEARCH_ID,
        candidate=records.CANDIDATE_ID,
        bundle=records.bundle_from(records.SEED).identity,
        protocol_version=1,
    )
    candidate = await store.candidates.get(records.CANDIDATE_ID)
    case = EvaluationCase(
        records.search(id=records.SEARCH_ID), records.OPERATOR, candidate, 0, report.bundle, report.device
    )
    await store.reports.save(record(case, report))
    await store.close()


def test_best_shows_the_elite_and_its_source(reef: Reef, filled: None, tmp_path: Path) -> None:
    shown = reef("best", "--out", str(tmp_path / "kernels"), "--json")
    best = json.loads(shown.stdout)
    assert (best["candidate"], best["source"]) == (records.CANDIDATE_ID, records.SEED)
    assert records.SEED in Path(best["file"]).read_text()
    assert best["figures"].startswith("PREDICTED") and best["baselines"] == {}
    text = reef("best", records.SEARCH_ID).stdout
    assert "1.250x" in text and "protocol" not in text
    assert (best["protocol_version"], best["outdated"]) == (None, False)


def test_best_says_that_an_elite_was_judged_by_an_older_protocol(reef: Reef, filled: None, tmp_path: Path) -> None:
    asyncio.run(judged_long_ago(tmp_path))
    best = json.loads(reef("best", "--json").stdout)
    assert (best["protocol_version"], best["outdated"]) == (1, True)
    text = reef("best").stdout
    assert "1.250x*" in text and "It was judged by the older protocol 1" in text


def test_plan_show_says_what_every_plan_does(reef: Reef, filled: None) -> None:
    text = reef("plan", "show", records.CANDIDATE_ID).stdout
    assert text.count("double_kernel") == len(records.SHAPES)
    assert reef("plan", "show", records.CANDIDATE_ID, "--shape", "1").stdout.count("double_kernel") == 1
    assert isinstance(reef("plan", "show", records.CANDIDATE_ID, "--shape", "9").exception, InvalidInput)


def test_the_bundle_is_to_be_had_as_it_is(reef: Reef, filled: None) -> None:
    assert json.loads(reef("plan", "show", records.CANDIDATE_ID, "--json").stdout)["target"] == "sm_90"


def test_nothing_to_show_is_said(reef: Reef) -> None:
    assert isinstance(reef("best").exception, NotFound)
    assert isinstance(reef("best", "nothing").exception, NotFound)
    assert isinstance(reef("plan", "show", "nothing").exception, NotFound)


async def _fill(folder: Path) -> SearchRecord:
    async with opened(folder) as store:
        return await stored(store, (SEED, Made("gained", 8.0, note="num_warps 8 -> 4"), Made("lost", 12.0)))


@pytest.fixture
def search(tmp_path: Path) -> SearchRecord:
    return asyncio.run(_fill(tmp_path))


def test_steps_are_written_as_lines_or_columns(reef: Reef, search: SearchRecord, tmp_path: Path) -> None:
    lines, columns = tmp_path / "steps.jsonl", tmp_path / "steps.parquet"
    done = reef("export", "--trajectories", search.id, "--out", str(lines), "--json")
    assert json.loads(done.stdout)["file"] == str(lines)
    records = [Trajectory.model_validate_json(line) for line in lines.read_text().splitlines()]
    assert [record.step for record in records] == [0, 1, 2]
    reef("export", "--trajectories", search.id, "--out", str(columns), "--rewards")
    rewards = importlib.import_module("pyarrow.parquet").read_table(columns).column("reward").to_pylist()
    assert rewards[0] == 0 and rewards[1] > 0 > rewards[2]
    reef("export", "--trajectories", search.id, "--out", str(lines), "--filter", "gains")
    assert len(lines.read_text().splitlines()) == 1
    assert not list(tmp_path.glob("*.part"))


def test_a_name_that_says_no_form_is_refused(reef: Reef, search: SearchRecord, tmp_path: Path) -> None:
    done = reef("export", "--trajectories", search.id, "--out", str(tmp_path / "steps.csv"))
    assert isinstance(done.exception, InvalidInput)
    assert not list(tmp_path.glob("steps*"))


async def test_lines_end_where_ndjson_says() -> None:
    async def chunks():
        for chunk in ('{"a": "x\u2028', 'y\x85"}\n{"b"', ": 1}\n"):
            yield chunk.encode()

    assert [json.loads(line) async for line in lines_of(chunks())] == [{"a": "x\u2028y\x85"}, {"b": 1}]


PACKAGE = Package("double_kernels", {}, {"N=4": "one", "N=8": "two"}, {"N=4": "three"}, ("two\x1b[2J: differs",))


def test_shapes_and_refusals_are_told(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    print_package(PACKAGE, tmp_path)
    said = capsys.readouterr().out.replace("\n", " ")
    assert "N=8" in said and "PyTorch" in said and "left out: two?[2J: differs" in said
    assert "The package double_kernels is in" in said


def test_the_same_as_json() -> None:
    document = package_document(PACKAGE)
    assert document["serving"] == {"N=4": "one", "N=8": "two"} and document["training"] == {"N=4": "three"}
    assert document["package"] == "double_kernels" and document["refusals"] == ["two\x1b[2J: differs"]
