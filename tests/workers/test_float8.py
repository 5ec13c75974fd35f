"""Float8 outputs are looked at like any others."""

import json

import pytest
import torch

from service.operators.catalogue import load_operator
from workers.checks import CHECKS, CheckEvidence, Expectation
from workers.float8 import beyond_rounding, carrier, mantissa_bits, readable
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
    return judged(graph, name, 3, lambda x, q, scale: (change(q.float()).to(q.dtype), scale))


def judged(graph, name, seed, kernel):
    """What the checks find of what a kernel makes of inputs and of the reference's results."""
    inputs = draw(OPERATOR, SHAPE, name, seed)
    reference = Expectation(OPERATOR, graph, inputs, name)
    evidence = CheckEvidence(
        operator=OPERATOR,
        shape=SHAPE,
        draw=name,
        inputs=inputs,
        inputs_after=inputs,
        outputs=kernel(*inputs, *reference.native),
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
        (lambda q: q.masked_fill(q.abs() < 28, 0.0), "error_ratio"),
        (lambda q: torch.where(q.abs() < 256, q.to(torch.float8_e5m2).float(), q), "error_ratio"),
    ],
    ids=["the largest of every row lost", "a little too small", "small values lost", "a digit lost in all but large"],
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


def _scaled(x, scale, quotient):
    return quotient(x.float(), scale[:, None]).to(torch.float8_e4m3fn), scale


HONEST = {
    "by the reciprocal": lambda x, scale: x * (1 / scale),
    "by 448 over the largest": lambda x, scale: x * (448 / (scale * 448)),
    "multiplied last": lambda x, scale: x / (scale * 448) * 448,
    "a roundoff off": lambda x, scale: x / scale * (1 + 2**-22),
    "rounded to bfloat16 first": lambda x, scale: (x / scale).bfloat16().float(),
    "rounded to float16 first": lambda x, scale: (x / scale).half().float(),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("way", HONEST)
def test_other_arithmetic_before_the_last_rounding_passes(graph, way, name):
    for seed in range(4):
        assert judged(graph, name, seed, lambda x, q, scale: _scaled(x, scale, HONEST[way]))[0] == set()


def test_a_factor_that_rounding_hides_in_most_elements_is_found(graph):
    scaled = judged(graph, "normal", 0, lambda x, q, scale: _scaled(x, scale, lambda v, s: v / s * 0.99))
    assert scaled[0] & {"bias", "error_ratio"}


FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_what_rounds_to_a_result_is_no_error(dtype):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(20_000, generator=generator) * 2.0 ** torch.randint(-16, 6, (20_000,), generator=generator)
    assert (beyond_rounding(values.to(dtype), values.double()) == 0).all()
    assert (beyond_rounding(values.to(dtype).roll(1), values.double()) != 0).float().mean() > 0.8


@pytest.mark.parametrize(
    ("got", "value", "error"),
    [
        (1.0, 1.0625, 0.0),  # half way to 1.125: either will do
        (1.125, 1.0625, 0.0),
        (1.0, 1.125, -0.0625),
        (1.0, 0.96875, 0.0),  # half way to 0.9375: values below a power of two are nearer to each other
        (1.0, 0.9375, 0.03125),
        (-1.0, -1.125, 0.0625),
        (0.0, 28.0, 2**-10 - 28),
        (2**-9, 0.0, 2**-10),
        (448.0, 464.0, 0.0),
        (448.0, 500.0, -36.0),
    ],
)
def test_errors_are_counted_from_the_nearest_value_that_rounds_to_a_result(got, value, error):
    result = torch.tensor([got]).to(torch.float8_e4m3fn)
    assert beyond_rounding(result, torch.tensor([value], dtype=torch.float64)).tolist() == [error]


def test_what_is_not_finite_stays_so():
    got = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0, 1.0]).to(torch.float8_e5m2)
    expected = torch.tensor([1.0, 1.0, 1.0, torch.nan, torch.inf], dtype=torch.float64)
    assert not beyond_rounding(got, expected).isfinite().any()


def test_what_float8_is_rounded_from():
    assert {carrier(dtype) for dtype in FLOAT8} == {torch.bfloat16}
    assert carrier(torch.float16) == torch.float16
    assert [mantissa_bits(dtype) for dtype in (*FLOAT8, torch.bool, torch.half)] == [3, 2, 0, 0]
