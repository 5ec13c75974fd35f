"""What follows from the lines of a throughput run, and that a run goes on where it ended."""

import json

import pytest

from benchmarks.figures import FigureRows, LineLog, TimeAllowance
from benchmarks.landscape import TracerPool
from benchmarks.measurer import MeasurerSlot
from benchmarks.space import points, written
from benchmarks.throughput import (
    SHAPES,
    CardUtilisation,
    OperatorCase,
    Phase,
    Pipeline,
    contract,
    distinct,
    overall,
    reached,
    summarise,
)
from tests.gpu.contracts import operators
from workers.devices.cuda import PAIRS
from workers.protocol import Device

MODEL = Device.parse("model:sm_90")
STRETCH = {"phase": "both", "operator": "rmsnorm", "benches": 1, "processes": 2}


def verdict(outcome, seconds, latency_s, **more):
    row = {"kind": "verdict", "session": 1.0, **STRETCH, "outcome": outcome}
    return {**row, "seconds": seconds, "latency_s": latency_s, **more}


def test_every_operator_has_five_shapes_of_its_own_within_its_contract():
    for name, shapes in SHAPES.items():
        operator = contract(name)
        assert len({tuple(item.dims.items()) for item in operator.shapes}) == len(shapes) == 5
        assert operator.digest != operators()[name].digest


def test_how_far_a_candidate_came():
    assert reached({"outcome": "wrong_result", "stage": "check"}) == "refused at check"
    assert reached({"outcome": "failure"}) == "failure"
    assert reached({"outcome": "correct", "pairs": [PAIRS] * 5}) == "timed in full"
    assert reached({"outcome": "correct", "pairs": [4, 4, PAIRS]}) == "given up at 2 of 3 shapes"


def test_a_summary_counts_by_stage_and_gives_rates_and_percentiles():
    run = {"kind": "run", **STRETCH, "processors_busy": 0.5}
    lines = [
        {**run, "session": 1.0, "seconds": 5.0, "card_busy": 0.2},
        {**run, "session": 1.0, "seconds": 10.0, "card_busy": 0.4},
        {**run, "session": 2.0, "seconds": 30.0, "card_busy": 0.8},
        {"kind": "trace", **STRETCH, "outcome": "correct", "seconds": 2.0, "bundles": 2},
        verdict("correct", 0.2, 3.0, pairs=[PAIRS], pacer_us=[20.0], stages_s={"time": 0.1}),
        verdict("wrong_result", 0.1, 1.0, stage="check", pairs=[], pacer_us=[], stages_s={"check": 0.1}),
    ]
    lines.append(verdict("correct", 0.2, None, pairs=[PAIRS], pacer_us=[20.0], late=True, stages_s={"time": 0.1}))
    (row,) = summarise(lines)
    assert (row["seconds"], row["judged"], row["an_hour"], row["bundles"]) == (40.0, 3, 180.0, 2)
    assert row["card_busy"] == pytest.approx(0.7)
    assert row["reached"] == {"timed in full": 2, "refused at check": 1}
    assert row["latency_s"] == {"p50": 3.0, "p99": 3.0}
    assert row["by_reached"]["refused at check"]["median_by_stage_s"] == {"check": 0.1}
    assert row["pacer_us"] == [20.0]


def test_bundles_that_several_results_share_are_counted_once():
    lines = [verdict("correct", 0.2, None, bundle=letter * 64) for letter in "aabc"]
    one, two = overall(lines), overall([*lines[2:], verdict("correct", 0.2, None, bundle="d" * 64)])
    assert one["distinct_bundles"] == {"rmsnorm": 3} and two["distinct_bundles"] == {"rmsnorm": 3}
    assert distinct([one, two]) == {"rmsnorm": 4}


@pytest.mark.parametrize("counted", ["benches", "processes"])
def test_rows_of_so_many_are_apart(counted):
    run = {"kind": "run", "session": 1.0, **STRETCH, "processors_busy": 0.5, "card_busy": 0.2}
    lines = [{**run, counted: many, "seconds": 10.0 * many} for many in (1, 4)]
    lines += [verdict("correct", 0.2, None, pairs=[PAIRS], pacer_us=[20.0]) | {counted: 4}]
    assert [(row[counted], row["seconds"], row["judged"]) for row in summarise(lines)] == [(1, 10.0, 0), (4, 40.0, 1)]


@pytest.mark.slow
def test_what_was_judged_is_not_judged_again(tmp_path):
    contest = OperatorCase(operators()["rmsnorm"])
    space = points(operators()["rmsnorm"], "sm_90")
    texts = [written(point, "sm_90") for point, _ in zip(space, range(2), strict=False)]
    counts = []
    for _ in range(2):
        lines, tracers, gauge = LineLog(tmp_path / "throughput.jsonl"), TracerPool(1), CardUtilisation(0)
        with MeasurerSlot(MODEL) as station:
            contest.prepare(tracers, "sm_90")
            flow = Pipeline([station], tracers, lines, FigureRows(tmp_path, "throughput"), gauge)
            before = len(lines.rows)
            flow.warm(contest)
            assert not station.waiting and len(lines.rows) == before
            flow.run(Phase("both", contest, TimeAllowance(120.0), 1), iter(texts))
        for part in (tracers, gauge, lines):
            part.close()
        counts.append(sum(row["kind"] == "verdict" for row in lines.rows))
    assert counts == [2, 2]
    document = json.loads((tmp_path / "throughput.json").read_text())
    assert document["rows"][0]["judged"] == 2 and document["rows"][0]["latency_s"]["p50"] > 0
