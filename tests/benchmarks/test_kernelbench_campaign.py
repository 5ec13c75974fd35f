"""Problems of a sitting: what is left, what is tried again, and what a model wrote."""

import argparse
import json
import lzma
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from benchmarks import kernelbench_campaign
from benchmarks.figures import LineLog, visible_card
from benchmarks.kernelbench_campaign import (
    TRIES,
    compare_problem,
    entries_of,
    lines_of,
    matrix_share,
    needed_flops,
    share_of_cores,
    tries_of,
)
from benchmarks.kernelbench_prepare import PREPARED
from benchmarks.kernelbench_queue import MODEL, RULES, STALE, TIME, timed_reference
from benchmarks.suites import CardRates, SuiteEntry
from service.operators.catalogue import load_operator
from tests.gpu.contracts import operators
from tests.workers.checks.cases import graph_of, operator
from workers.baselines import BaselinesFailed
from workers.protocol import Shape


def row(name: str, session: float, **told: object) -> dict[str, object]:
    return {"kind": "row", "row": f"level1/{name}.py default rules", "session": session, **told}


def test_a_lane_sees_the_cards_that_it_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_card(1) == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert [visible_card(0), visible_card(1)] == ["3", "1"]


def test_what_has_figures_is_done_and_what_failed_is_tried_in_further_sittings() -> None:
    known = [row("a", 1.0), row("a", 1.0, reef_us=2.0), row("b", 1.0), row("b", 1.0), row("c", 1.0), row("c", 2.0)]
    tries = tries_of(known, timed=True)
    assert tries == {
        "level1/a.py default rules": TRIES,
        "level1/b.py default rules": 1,
        "level1/c.py default rules": TRIES,
    }


def test_a_search_that_a_sitting_s_end_cut_is_tried_again() -> None:
    cut = [row("a", 1.0, reef_us=2.0, ended=TIME)]
    assert tries_of(cut, timed=True) == {"level1/a.py default rules": 1}
    assert tries_of([*cut, row("a", 2.0, reef_us=1.9, ended=STALE)], timed=True) == {"level1/a.py default rules": TRIES}


def test_the_floor_counts_convolutions_at_the_rate_of_their_precision() -> None:
    spec = operator("matmul", "float32")
    allowed = operator("matmul", "float32", precision={"allow_tf32": True})
    assert [matrix_share(each) for each in (operator("matmul"), allowed, spec)] == [1.0, 1 / 2, 1 / 6]
    product = graph_of(spec, Shape(dims={"M": 4, "K": 8, "N": 2}))
    assert needed_flops(spec, product) == 2.0 * 4 * 8 * 2
    conv = operators()["depthwise_conv_large"]
    dims = {"B": 1, "C": 4, "H": 40, "W": 40, "K": 31}
    assert needed_flops(conv, graph_of(conv, Shape(dims=dims))) > 2.0 * 4 * 25 * 25 * 31 * 31


class Tuning:
    """A process of baselines that tunes until it is interrupted."""

    def __init__(self) -> None:
        self.interrupted = Event()

    def interrupt(self) -> None:
        self.interrupted.set()


def compare_until(until: float, processes: SimpleQueue[Any]) -> None:
    rates = Future[CardRates]()
    rates.set_result(CardRates(1e12, 1e15))
    spec = operator("matmul", "float32")
    graphs = [graph_of(spec, Shape(dims={"M": 4, "K": 8, "N": 2}))]
    told: dict[str, Any] = {"bundle": None, "device": None, "known": rates, "processes": processes, "until": until}
    compare_problem(SuiteEntry("matmul", graphs[0].shape.dims), graphs, **told)


def test_a_comparison_ends_with_its_sitting(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Tuning] = []

    def tune(*_: object, process: Tuning, **__: object) -> None:
        begun.append(process)
        raise BaselinesFailed("it was killed" if process.interrupted.wait(20.0) else "it ended by itself")

    monkeypatch.setattr(kernelbench_campaign, "figures_of", tune)
    spec = operator("matmul", "float32")
    monkeypatch.setattr(kernelbench_campaign, "timed_reference", lambda entry, graphs: (spec, graphs[0]))
    processes = SimpleQueue[Any]()
    processes.put(Tuning())
    with pytest.raises(BaselinesFailed, match="it was killed"):
        compare_until(time.monotonic() + 0.05, processes)
    with pytest.raises(BaselinesFailed, match="ended before"):
        compare_until(time.monotonic(), processes)
    assert len(begun) == 1 and processes.get_nowait() is begun[0]


def test_lanes_have_neighbouring_cores_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 0, 2, 5, 3}, raising=False)
    assert [share_of_cores(number, 2) for number in range(2)] == [[0, 2], [3, 5, 7]]
    assert share_of_cores(0, 1) == [0, 2, 3, 5, 7]


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A folder with one problem that has a seed and one that has none, as `prepare` leaves it."""
    for name, seeds, reason in (("1_Doubled", 1, ""), ("2_Dropout", 0, "draws random numbers")):
        line = {"problem": f"level1/{name}.py", "contract": "default", "operator": f"level1_{name.lower()}"}
        with closing(LineLog(tmp_path / PREPARED)) as lines:
            lines.add({**line, "seeds": seeds, "reason": reason, "allow_tf32": False})
    home = tmp_path / "default" / "level1_1_doubled"
    home.mkdir(parents=True)
    (home / "reference.py").write_text("def doubled(x):\n    return x * 2\n")
    spec = 'name = "level1_1_doubled"\nentry = "doubled"\nreference = "reference.py"\nshapes = [{M = 8}]\n'
    (home / "operator.toml").write_text(
        f'{spec}[[inputs]]\nname = "x"\nshape = ["M"]\ndtype = "float32"\n[[outputs]]\nname = "y"\ndtype = "float32"\n'
    )
    (tmp_path / "list.tsv").write_text("# KernelBench 1234; lot of seed 1\nlevel1/1_Doubled.py\tdrawn\n")
    return tmp_path


def record(recording: Path, *sources: str) -> None:
    told = {"contract": "default", "operator": "level1_1_doubled"}
    with lzma.open(recording, "wt") as file:
        file.writelines(f"{json.dumps({**told, 'source': source})}\n" for source in sources)


def options(folder: Path, how: str, levels: Sequence[str] = ("level1",)) -> argparse.Namespace:
    told = {"folder": folder, "list": folder / "list.tsv", "answers": folder / "answers.jsonl.xz", "levels": levels}
    return argparse.Namespace(**told, contract="default", how=how, device=None, baselines=None)


def test_the_queue_has_what_a_search_can_start_from(prepared: Path) -> None:
    assert [each.key for each in entries_of(options(prepared, RULES), [])] == ["level1/1_Doubled.py default rules"]
    done = [row("1_Doubled", 1.0, reef_us=3.0)]
    assert entries_of(options(prepared, RULES), done) == []
    assert entries_of(options(prepared, RULES, ["level2", "level3"]), []) == []


def test_a_sitting_may_leave_baselines_out(prepared: Path) -> None:
    home = prepared / "default" / "level1_1_doubled"
    spec = (home / "operator.toml").read_text()
    (home / "operator.toml").write_text(
        spec.replace("[[inputs]]", 'baselines = ["compile", "max_autotune"]\n[[inputs]]')
    )
    graph, chosen = graph_of(load_operator(home), Shape(dims={"M": 8})), options(prepared, RULES)
    for asked, expected in ((None, ("compile", "max_autotune")), (["compile"], ("compile",)), ([], ())):
        chosen.baselines = asked
        (entry,) = entries_of(chosen, [])
        assert tuple(entry.contract()["baselines"]) == timed_reference(entry, [graph])[0].baselines == expected


def test_the_lot_comes_first_but_for_recurrent_layers(prepared: Path) -> None:
    prepared_lines, listed = prepared / PREPARED, prepared / "list.tsv"
    first = json.loads(prepared_lines.read_text().splitlines()[0])
    prepared_lines.write_text(
        "".join(f"{json.dumps({**first, 'problem': f'level1/{n}.py'})}\n" for n in ("0_Any", "1_Doubled"))
    )
    listed.write_text(f"{listed.read_text()}level1/0_Any.py\t\n")
    assert [each.problem for each in entries_of(options(prepared, RULES), [])] == [
        "level1/1_Doubled.py",
        "level1/0_Any.py",
    ]
    layer = prepared / "default" / "level1_2_layer"
    shutil.copytree(prepared / "default" / "level1_1_doubled", layer)
    (layer / "reference.py").write_text("# nn.GRU(8, 8)\ndef doubled(x):\n    return x * 2\n")
    drawn = {**first, "problem": "level1/1_Doubled.py", "operator": "level1_2_layer"}
    prepared_lines.write_text(
        "".join(f"{json.dumps(each)}\n" for each in (drawn, {**first, "problem": "level1/0_Any.py"}))
    )
    assert [each.problem for each in entries_of(options(prepared, RULES), [])] == [
        "level1/0_Any.py",
        "level1/1_Doubled.py",
    ]


def test_a_model_s_column_has_problems_with_answers_alone(prepared: Path) -> None:
    assert entries_of(options(prepared, MODEL), []) == []
    record(prepared / "answers.jsonl.xz", "# a kernel\n")
    (found,) = entries_of(options(prepared, MODEL), [])
    assert found.answers == ("# a kernel\n",) and found.key == "level1/1_Doubled.py default model"


def test_results_are_known_rows_and_more_of_a_model_s_kernels_a_reason_to_search_again(prepared: Path) -> None:
    recording, results = prepared / "answers.jsonl.xz", prepared / "results.json"
    head = {"problem": "level1/1_Doubled.py", "contract": "default", "how": MODEL, "outcome": "correct"}
    reached = {**head, "reef_us": 3.0, "answered": [{"number": 1, "outcome": "correct"}]}
    results.write_text(json.dumps({"rows": [reached, {**head, "how": RULES, "outcome": "not_reached"}]}))
    known = list(lines_of([results]))
    record(recording, "# a kernel\n")
    assert len(known) == 1 and entries_of(options(prepared, MODEL), known) == []
    record(recording, "# a kernel\n", "# a better one\n")
    (found,) = entries_of(options(prepared, MODEL), known)
    assert found.contract()["seeds"] == ["# a better one\n", "# a kernel\n"]
