"""`reef kernelbench results` shows what came of each problem, and writes kernels in KernelBench's form."""

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.descriptors import coordinates
from archive.records import NewCandidate, NewSearch, NewVariant, Offer, SearchState, TraceOutcome
from archive.store import Store, migrate
from service.cli import app
from service.errors import InvalidInput, NotFound
from service.operators.kernelbench import operator_of_problem
from tests.service import records
from tests.workers.kernelbench.problems import forward
from workers.protocol import Input, Output
from workers.protocol.kernelbench import ProblemInspection

PROBLEM = forward("return x * 2")
FOUND = ProblemInspection(
    inputs=(Input(name="x", shape=("D0", 64), dtype="float32"),),
    outputs=(Output(name="y", dtype="float32"),),
    arguments=("x",),
    target="Model",
    shapes=({"D0": 32},),
)
KERNEL = "import torch\n\n\ndef {name}(x):\n    return torch.empty_like(x)\n"
FAILED_ID = "0190a000-0000-7000-8000-000000000009"


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["kernelbench", "results", *arguments], env={"REEF_DATA_DIR": str(folder)})


async def fill(url: str) -> None:
    """An archive with a search that found a kernel on an H200, one that failed, and one for another operator."""
    await migrate(url)
    store = await Store.open(url)
    for id, name in ((records.SEARCH_ID, "level1_1_double"), (FAILED_ID, "level1_2_double"), ("other", "double")):
        made = operator_of_problem(name, PROBLEM, FOUND, (KERNEL.format(name=name),))
        operator = made if id != "other" else records.OPERATOR
        await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
        search = records.search(id=id, operator=operator.digest, operator_name=name, devices=("h200",))
        await store.searches.create(NewSearch(**{item.name: getattr(search, item.name) for item in fields(NewSearch)}))
    await store.searches.set_state(FAILED_ID, SearchState.FAILED, reason="the seed kernel is not correct")
    source, bundle = KERNEL.format(name="level1_1_double"), records.bundle()
    await store.candidates.add(
        NewCandidate(records.CANDIDATE_ID, records.SEARCH_ID, 0, "seed", source, "d" * 64, "k" * 64, (), "seed 0")
    )
    readings = tuple(records.readings().model_dump(mode="json") for _ in records.SHAPES)
    variant = NewVariant(0, {}, None, "", None, bundle.identity, bundle.model_dump_json(), readings)
    await store.candidates.save_trace(records.CANDIDATE_ID, TraceOutcome(None, "", None, {}, (variant,)))
    place = {"search": records.SEARCH_ID, "candidate": records.CANDIDATE_ID, "bundle": bundle.identity}
    elite = records.elite(**place, device="h200", coordinates=coordinates(readings[1]))
    await store.elites.offer(Offer(**{item.name: getattr(elite, item.name, None) for item in fields(Offer)}))
    await store.close()


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    asyncio.run(fill(f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}"))
    return tmp_path


def test_every_problem_is_told_with_what_came_of_it(filled: Path) -> None:
    level = filled / "level1"
    level.mkdir()
    for number in (1, 3):
        (level / f"{number}_Double.py").write_text(PROBLEM)
    result = run(filled, "--of", str(level), "--out", str(filled / "kernels"), "--json")
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["figures"].startswith("MEASURED on h200")
    assert [(item["problem"], item["judged"], item["reason"]) for item in found["problems"]] == [
        ("level1_1_double", True, ""),
        ("level1_2_double", False, "the seed kernel is not correct"),
        ("level1_3_double", False, "there is no search for it"),
    ]
    assert [(line["p"], line["judged"]) for line in found["fast"][:3]] == [(1.0, 1), (1.2, 1), (2.0, 1)]
    written = (filled / "kernels" / "level1_1_double.py").read_text()
    assert written.startswith("# level1_1_double: a kernel") and "class ModelNew(Model):" in written
    shown = run(filled).stdout
    assert "fast_p" in shown and "level1_2_double: the seed kernel is not correct" in shown


def test_a_kernel_admitted_against_mutation_testing_is_no_result_and_is_marked(filled: Path) -> None:
    async def admit() -> None:
        store = await Store.open(f"sqlite+aiosqlite:///{filled / 'reef.db'}")
        await store.searches.set_admitted(records.SEARCH_ID, "the checks take\n'zeros' for right")
        await store.close()

    asyncio.run(admit())
    found = json.loads(run(filled, "--out", str(filled / "kernels"), "--json").stdout.splitlines()[-1])
    assert found["problems"][0]["judged"] is False and found["problems"][0]["speedups"] == {}
    assert "ADMITTED against mutation testing" in found["problems"][0]["reason"]
    assert {line["judged"] for line in found["fast"]} == {0}
    written = (filled / "kernels" / "level1_1_double.py").read_text()
    assert "# ADMITTED against mutation testing, so it may be wrong: the checks take 'zeros' for right\n" in written


def test_there_is_no_fast_p_of_predicted_times(filled: Path) -> None:
    assert isinstance(run(filled, "--device", "model:sm_90").exception, InvalidInput)
    assert isinstance(run(filled, "--device", "abacus").exception, InvalidInput)
    assert isinstance(run(filled, "--device", "h100").exception, NotFound)
