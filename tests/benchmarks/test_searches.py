"""What is searched for on a card, how time is shared out, and that a run goes on where it ended."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import searches
from benchmarks.compile_ahead import CompileAhead
from benchmarks.figures import LineLog, Row
from benchmarks.searches import (
    SHORTEST_S,
    CardQueue,
    RowLog,
    SearchTerms,
    chosen,
    further_seeds,
    left_of,
    noted_rates,
    seconds_for,
)
from benchmarks.suites import ANCHOR, CardRates, SuiteEntry, floor_us, moved_bytes, rest
from service.coordinator import Coordinator
from service.operators.catalogue import load_catalogue, parse_operator
from service.settings import Settings
from tests.gpu.contracts import operators
from workers.protocol import Bundle, Device, Graph, Operator, View


def test_the_suites_hold_every_operator_once_or_at_several_shapes_of_its_contract():
    keys = [entry.key for entry in (*ANCHOR, *rest())]
    assert len(ANCHOR) == 23 and len(set(keys)) == len(keys)
    assert {entry.operator for entry in (*ANCHOR, *rest())} == set(load_catalogue())
    for entry in (*ANCHOR, *rest()):
        (shape,) = parse_operator(entry.contract()).shapes
        assert shape.dims == dict(entry.dims)


def test_a_row_is_compared_with_the_baselines_that_are_asked_for():
    entry = ANCHOR[-1]
    assert parse_operator(replace(entry, baselines=("native",)).contract()).baselines == ("native",)
    assert parse_operator(entry.contract()).baselines == load_catalogue()["attention"].baselines


def test_a_row_has_further_seeds_behind_those_of_the_catalogue(tmp_path: Path):
    (tmp_path / "rope").mkdir()
    for name in ("second", "first"):
        (tmp_path / f"rope/{name}.py").write_text(f"# {name}\n")
    entry = next(entry for entry in ANCHOR if entry.operator == "rope")
    found = parse_operator(replace(entry, further=further_seeds(tmp_path, "rope")).contract()).seeds
    assert found == (*load_catalogue()["rope"].seeds, "# first\n", "# second\n")
    assert further_seeds(tmp_path, "gelu") == further_seeds(None, "rope") == ()


def test_floors_are_of_bytes_or_of_operations_whichever_take_longer():
    rates = CardRates(bytes_per_s=4e12, flops_per_s=800e12)
    assert floor_us(4_000_000, 0.0, rates) == pytest.approx(1.0)
    assert floor_us(4_000_000, 8e9, rates) == pytest.approx(10.0)
    product = next(entry for entry in ANCHOR if entry.operator == "matmul")
    assert product.flops == 2 * 4096**3


def test_time_is_shared_evenly_and_the_first_get_what_is_left():
    assert seconds_for(540.0, 6, 50.0, 120.0) == 40.0
    assert seconds_for(540.0, 2, 50.0, 120.0) == 120.0
    assert seconds_for(100.0, 6, 50.0, 120.0) == SHORTEST_S
    assert seconds_for(59.0, 1, 50.0, 120.0) == 0.0


def test_a_whole_search_gets_all_of_its_seconds_or_is_not_begun():
    assert seconds_for(540.0, 6, 50.0, 120.0, whole=True) == 120.0
    assert seconds_for(169.0, 1, 50.0, 120.0, whole=True) == 0.0


def test_rows_come_in_the_order_of_the_expressions_that_name_them():
    names = [entry.key for entry in chosen(ANCHOR, ["^softmax M=4096", "^softmax|^gelu", "^rmsnorm M=512"])]
    assert [name.partition(",")[0] for name in names] == [
        "softmax M=4096", "softmax M=8192", "softmax M=1024", "gelu M=8192", "rmsnorm M=512",
    ]  # fmt: skip
    assert chosen(ANCHOR, []) == list(ANCHOR)


def test_rates_are_noted_as_those_of_the_card_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = {"copied_bytes_per_s": 4e12, "read_bytes_per_s": 3e12, "matrix_flops_per_s": 7e14}
    monkeypatch.setattr(searches, "measured_rates", lambda card: (CardRates(4e12, 7e14), said))
    with closing(LineLog(tmp_path / "anchor.jsonl")) as lines:
        assert noted_rates(lines, 3) == CardRates(4e12, 7e14)
        (line,) = lines.rows
    assert line["kind"] == "rates" and line["card"] == 3 and line["copied_bytes_per_s"] == 4e12


def test_rows_with_figures_are_not_searched_again(tmp_path: Path):
    first, second = ANCHOR[:2]
    with closing(LineLog(tmp_path / "anchor.jsonl")) as lines:
        lines.add({"kind": "rates"})
        lines.add({"kind": "row", "row": first.key, "objective": 1.1})
        assert left_of(ANCHOR[:2], lines, measured=True) == [first, second]
        lines.add({"kind": "row", "row": first.key, "objective": 1.1, "reef_us": 20.0})
    with closing(LineLog(tmp_path / "anchor.jsonl")) as lines:
        assert left_of(ANCHOR[:2], lines, measured=True) == [second]


class AskedAhead(CompileAhead):
    """Notes what is to be compiled ahead."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def ask(self, operator: Operator, graph: Graph) -> None:
        self.asked.append((operator.name, graph.shape.key))


@pytest.mark.slow
async def test_rows_are_searched_for_and_what_was_not_reached_is_said(tmp_path: Path):
    entries = [SuiteEntry("rmsnorm", {"M": 64, "N": 256}), SuiteEntry("softmax", {"M": 64, "N": 256}), *ANCHOR[:1]]
    coordinator = await Coordinator.open(Settings(data_dir=tmp_path / "data", local_workers=1))
    terms = SearchTerms(Device.parse("model:sm_90"), 3, 120.0, 300.0, 0, ("tune",), time.monotonic() + 550.0)
    compared, ahead = [], AskedAhead()

    def compare(entry: SuiteEntry, graphs: Sequence[Graph], bundle: Bundle) -> Row:
        compared.append((entry.operator, bool(graphs), bundle.target))
        return {"reef_us": 1.0}

    try:
        with closing(LineLog(tmp_path / "rows.jsonl")) as lines:
            note = RowLog(lines, terms.device)
            await CardQueue(coordinator, terms, note, compare, ahead=ahead).run(entries[:2])
            late = replace(terms, until=time.monotonic() + 1.0)
            await CardQueue(coordinator, late, note).run(entries[2:])
            rows = lines.rows
    finally:
        await coordinator.close()
    assert [row["operator"] for row in rows] == ["rmsnorm", "rmsnorm", "softmax", "softmax", "rmsnorm"]
    assert [row["state"] for row in rows] == ["done"] * 4 + ["not reached"]
    assert [row.get("reef_us") for row in rows] == [None, 1.0, None, 1.0, None]
    assert compared == [("rmsnorm", True, "sm_90"), ("softmax", True, "sm_90")]
    assert ahead.asked == [("rmsnorm", "M=64,N=256"), ("softmax", "M=64,N=256")]
    assert all(row["correct"] and row["objective"] for row in rows[:4])
    assert rows[3]["shape"] == "M=64,N=256" and rows[4]["reason"] == "no time was left"


def test_moved_bytes_are_those_of_inputs_and_results():
    result = View(buffer=2, shape=(64, 256), strides=(256, 1), dtype="bfloat16")
    assert moved_bytes(operators()["rmsnorm"], {"M": 64, "N": 256}, [result]) == 2 * (2 * 64 * 256 + 256)
