"""A queue of problems on a card: what is claimed, fits, is searched for, and was written by a model."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.figures import LineLog, Row, read_lines
from benchmarks.kernelbench_campaign import entries_of, lines_of
from benchmarks.kernelbench_lot import ListedProblem
from benchmarks.kernelbench_prepare import GATE, PREPARED, prepare
from benchmarks.kernelbench_queue import ITSELF, MODEL, CampaignEntry, CampaignQueue, CampaignTerms, ClaimedEntries
from benchmarks.searches import RowLog
from benchmarks.suites import SuiteEntry
from service.coordinator import Coordinator
from service.settings import Settings
from tests.benchmarks.test_kernelbench_campaign import options, record
from tests.workers.kernelbench.problems import forward
from workers.protocol import Bundle, Device, Graph

MODEL_DEVICE = Device.parse("model:sm_90")


def entry(name: str) -> CampaignEntry:
    return CampaignEntry(name, {"M": 1}, problem=f"level1/{name}.py")


def test_two_cards_share_a_queue_and_each_entry_is_taken_once(tmp_path: Path) -> None:
    entries = [entry(name) for name in "abc"]
    one, other = ClaimedEntries(entries, tmp_path / "claims"), ClaimedEntries(entries, tmp_path / "claims")
    taken = [one.claim(), other.claim(), one.claim(), other.claim(), one.claim()]
    assert [each and each.operator for each in taken] == ["a", "b", "c", None, None]


@pytest.mark.slow(reason="a search with workers of its own; the queue and its rows are tested above without one")
async def test_problems_are_prepared_once_searched_for_and_carry_their_mutation_report(tmp_path: Path) -> None:
    root = tmp_path / "problems" / "level1"
    root.mkdir(parents=True)
    (root / "1_Doubled.py").write_text(forward("return torch.relu(x) * 2 - x"))
    (root / "2_Dropout.py").write_text(forward("return torch.dropout(x, 0.5, True)"))
    listed = [ListedProblem(f"level1/{name}.py", True) for name in ("1_Doubled", "2_Dropout")]
    for _ in range(2):
        await prepare(root.parent, listed, ["default"], tmp_path / "folder")
    rows = read_lines(tmp_path / "folder" / PREPARED)
    assert [each["seeds"] > 0 for each in rows] == [True, False] and "random numbers" in rows[1]["reason"]
    gate = tmp_path / "folder" / "default" / "level1_1_doubled" / GATE
    assert json.loads(gate.read_text())["verdict"] == rows[0]["gate"] == "passed"
    (tmp_path / "folder" / "list.tsv").write_text("# KernelBench 1234; lot of seed 1\nlevel1/1_Doubled.py\tdrawn\n")
    seed = (gate.parent / "seed.py").read_text()
    record(tmp_path / "folder" / "answers.jsonl.xz", f"{seed}\n# by a model\nSCALE = 2\n")
    entries = entries_of(options(tmp_path / "folder", MODEL), [])
    coordinator = await Coordinator.open(Settings(data_dir=tmp_path / "data", local_workers=1))
    terms = CampaignTerms(MODEL_DEVICE, 6, 30.0, 150.0, 0, ("tune",), time.monotonic() + 500.0, beside=2, together=2)
    compared: list[str] = []

    def compare(entry: SuiteEntry, graphs: Sequence[Graph], bundle: Bundle) -> Row:
        compared.append(entry.key)
        return {"reef_us": 1.0}

    try:
        with closing(LineLog(tmp_path / "lines" / "1-0.jsonl")) as lines:
            claims = ClaimedEntries(entries, tmp_path / "claims")
            await CampaignQueue(coordinator, terms, RowLog(lines, MODEL_DEVICE), compare, claims).run_all()
    finally:
        await coordinator.close()
    first, found = lines_of([tmp_path / "lines"])
    assert (first.get("reef_us"), found["reef_us"], compared) == (None, 1.0, [found["row"]])
    assert found["row"] == "level1/1_Doubled.py default model" and set(found["seeds"]) == {"correct"}
    assert [each["outcome"] for each in found["answered"]] == ["correct"] and found["answers"] == 1
    assert found["objective"] and found["root_emitter"] in ("seed", MODEL)
    assert found["ended"] == ITSELF and 0.0 < found["card_s"] <= found["search_s"] + 1.0
    events = ["submitted", "exported", "ready", "search", "found", "compare", "compared"]
    assert sorted(found["moments"], key=found["moments"].__getitem__) == events
