"""Problems chosen before anybody looked: prepared once, searched for, and counted whether judged or not."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.figures import LineLog, read_lines
from benchmarks.kernelbench_search import PREPARED, draw, entries_of, joined, prepare
from benchmarks.searches import CardQueue, RowLog, SearchTerms
from service.coordinator import Coordinator
from service.settings import Settings
from tests.workers.kernelbench.problems import forward
from workers.protocol import Device

MODEL = Device.parse("model:sm_90")


def prepared(name, *, seed=True, reason=""):
    return {"problem": f"level1/{name}.py", "operator": f"level1_{name}", "seed": seed, "reason": reason}


def searched(name, outcome, **over):
    ratios = {baseline: {"low": mid * 0.99, "mid": mid, "high": mid * 1.01} for baseline, mid in over.items()}
    row = {"kind": "row", "row": f"level1_{name} M=1", "operator": f"level1_{name}", "state": "stopped", "reason": ""}
    return {**row, "objective": 1.0 if over else None, "seeds": [outcome], "over": ratios}


def test_the_draw_is_the_same_each_time_and_of_each_level():
    problems = [Path(f"level{level}/{number}_Some.py") for level in (1, 2) for number in range(30)]
    drawn = draw(problems)
    assert drawn == draw(problems) and len(set(drawn)) == 40
    assert sum(key.startswith("level1/") for key in drawn) == 20


def test_what_was_not_judged_is_in_no_share_and_listed_with_its_reason():
    chosen = [prepared("a"), prepared("b"), prepared("c", seed=False, reason="draws random numbers"), prepared("d")]
    lines = [searched("a", "correct", eager=2.5, compile=1.1), searched("b", "wrong_result")]
    told, rows = joined(chosen, lines)
    assert (told["chosen"], told["with a seed"], told["seed correct"], told["judged"]) == (4, 3, 1, 2)
    shares = {(share["baseline"], share["p"]): (share["count"], share["judged"]) for share in told["fast"]}
    assert shares["eager", 2.0] == shares["compile", 1.0] == (1, 2)
    assert shares["compile", 1.2] == (0, 2)
    reasons = {row["operator"]: row["reason"] for row in rows}
    assert reasons["level1_c"] == "draws random numbers" and reasons["level1_d"] == "it was not searched for"


@pytest.mark.slow
async def test_problems_are_prepared_once_and_searched_for(tmp_path: Path):
    root = tmp_path / "problems" / "level1"
    root.mkdir(parents=True)
    (root / "1_Doubled.py").write_text(forward("return torch.relu(x) * 2 - x"))
    (root / "2_Dropout.py").write_text(forward("return torch.dropout(x, 0.5, True)"))
    chosen = ["level1/1_Doubled.py", "level1/2_Dropout.py"]
    for _ in range(2):
        await prepare(root.parent, chosen, tmp_path / "folder")
    rows = read_lines(tmp_path / "folder" / PREPARED)
    assert [row["seed"] for row in rows] == [True, False] and "random numbers" in rows[1]["reason"]
    entries = entries_of(rows, tmp_path / "folder")
    coordinator = await Coordinator.open(Settings(data_dir=tmp_path / "data", local_workers=1))
    terms = SearchTerms(MODEL, 2, 60.0, 150.0, 0, ("tune",), time.monotonic() + 500.0)
    try:
        with closing(LineLog(tmp_path / "rows.jsonl")) as lines:
            await CardQueue(coordinator, terms, RowLog(lines, terms.device)).run(entries)
            told, _ = joined(rows, lines.rows)
    finally:
        await coordinator.close()
    assert (told["chosen"], told["with a seed"], told["seed correct"], told["judged"]) == (2, 1, 1, 1)
