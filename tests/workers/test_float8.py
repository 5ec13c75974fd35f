"""Float8 outputs are looked at like any others."""

import json

import pytest
import torch

from service.operators.catalogue import load_operator
from workers.checks import CHECKS, Evidence, Expectation
from workers.float8 import readable
from workers.inputs import DRAWS, draw
from workers.protocol import Graph, Outcome, Shape, TraceJob
from workers.tracer.reference import export

OPERATOR = load_operator("quantize_fp8")
SHAPE = Shape(dims={"M": 33, "N": 70})


@pytest.fixture(scope="module")
def graph():
    job = TraceJob(id="job", search="search", operator=OPERATOR, shapes=(SHAPE,), target="sm_90")
    return Graph.model_validate(json.loads(export(job.model_dump_json().encode()))["graphs"][0])


def found(graph, name, change):
    """What the checks find of quantised rows that were changed, by check."""
    inputs = draw(OPERATOR, SHAPE, name, 3)
    reference = Expectation(OPERATOR, graph, inputs, name)
    q, scale = reference.native
    evidence = Evidence(
        operator=OPERATOR,
        shape=SHAPE,
        draw=name,
        inputs=inputs,
        inputs_after=inputs,
        outputs=(change(q.float()).to(q.dtype), scale),
        reference=reference,
    )
    outcomes = {check.name: check.examine(evidence).outcome for check in CHECKS.values()}
    return {name for name, outcome in outcomes.items() if outcome is not None}, outcomes


@pytest.mark.parametrize("name", DRAWS)
def test_the_reference_passes(graph, name):
    assert found(graph, name, lambda q: q)[0] == set()


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda q: q.masked_fill(q.abs() == 448, float("nan")), "special_values"),
        (lambda q: q * 0.9, "bias"),
        (lambda q: q.masked_fill(q.abs() < 100, 0.0), "error_ratio"),
    ],
    ids=["the largest of every row lost", "a little too small", "small values lost"],
)
def test_what_is_wrong_is_found(graph, change, check):
    failed, outcomes = found(graph, "normal", change)
    assert check in failed
    assert outcomes[check] in (Outcome.WRONG_RESULT, Outcome.PRECISION)


def test_only_float8_is_widened():
    values = torch.tensor([1.5, -448.0, 0.0])
    assert torch.equal(readable(values.to(torch.float8_e4m3fn)), values)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool):
        other = torch.ones(2, dtype=dtype)
        assert readable(other) is other
