"""Nothing is found out twice: equal sources are traced once and equal bundles judged once, also across searches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from archive.records import CandidateRecord
from archive.store import Store
from service.evaluation.jobs import FINAL
from service.operators.catalogue import load_catalogue
from tests.journeys.small import small_operator
from workers.protocol import Report

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")


def search(spec: Path, data: Path) -> str:
    environment = {**os.environ, "REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "1"}
    command = [*REEF, "search", str(spec), "--evaluations", "2", "--json"]
    done = subprocess.run(command, env=environment, cwd=data, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["search"])


async def judged(store: Store, search: str) -> tuple[list[CandidateRecord], list[Report], list[Report]]:
    """Candidates of a search in their order, the one judgement of each, and the examinations of finalists."""
    candidates = (await store.candidates.list(search))[::-1]
    documents = [await store.reports.of_candidate(candidate.id) for candidate in candidates]
    reports = [Report.model_validate_json(document) for each in documents for document in each]
    verdicts = [report for report in reports if report.kind != FINAL]
    assert [report.candidate for report in verdicts] == [candidate.id for candidate in candidates]
    return candidates, verdicts, [report for report in reports if report.kind == FINAL]


async def test_each_source_is_traced_once_and_each_bundle_judged_once(tmp_path: Path) -> None:
    seed, kernel = load_catalogue()["softmax"].seeds[0], "softmax_kernel"
    assert kernel in seed
    same, twin = seed + "\n# the same, with a comment\n", seed.replace(kernel, "another_name")
    spec = small_operator(tmp_path, seed, same, twin)
    first, second = search(spec, tmp_path), search(spec, tmp_path)
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}")
    try:
        here, reports, (examined,) = await judged(store, first)
        there, others, (copied,) = await judged(store, second)
    finally:
        await store.close()
    assert [candidate.source for candidate in here[:2]] == [seed, twin]
    assert all(candidate.outcome == "correct" for candidate in (*here, *there))
    assert all(candidate.stages_s for candidate in here[:2]), "traced, each by itself"
    assert [candidate.source for candidate in there[:2]] == [candidate.source for candidate in here[:2]]
    assert not any(candidate.stages_s for candidate in there[:2]), "taken from the first search"
    assert len({report.bundle for report in (*reports[:2], *others[:2])}) == 1
    assert len({report.seed for report in (*reports[:2], *others[:2])}) == 1, (
        "every judgement draws a secret of its own"
    )
    assert examined.outcome == "correct"
    assert (copied.bundle, copied.seed, copied.stages_s) == (examined.bundle, examined.seed, examined.stages_s), (
        "both hold their cell by one examination"
    )
