"""The gate as a whole: operators that can be judged pass, those that cannot are refused with the reason."""

import json

import pytest

from service.operators.catalogue import load_operator
from service.operators.shapes import all_shapes
from tests.workers.mutation_testing.references import REFERENCES, graphs_of, operator
from workers.mutation_testing import admit
from workers.protocol import Graph, InputRef, Node, NodeRef, TraceJob
from workers.tracer.reference import export

SAMPLE = ("attention", "cross_entropy", "layernorm_backward", "matmul", "rmsnorm", "rope")
"""One operator of each kind; `benchmarks.mutation_testing` passes the whole catalogue."""
REFUSED = {
    "zeros": "'zeros'",
    "negligible": "must not be too small for float32",
    "never": "the checks accept 'zeros'",
    "undefined": "'uninitialised memory'",
    "constant": "'right answer to other inputs'",
    "jumping": "right answers fail",
}
"""References that nothing can be judged by, and what the reason says."""
POINTS = ({"M": 33, "N": 130, "K": 40}, {"M": 40, "N": 64, "K": 5}, {"M": 3, "N": 7}, {"M": 1, "N": 2, "K": 1})


def graphs_at_points(of) -> tuple[Graph, ...]:
    return graphs_of(of, *({size: at[size] for size in at if size in of.dimensions} for at in POINTS))


LONG = pytest.mark.slow(
    reason="takes as long as all others of the sample; `tests/workers/mutation_testing` has its mutations in small"
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG) if name in ("attention", "layernorm_backward") else name for name in SAMPLE]
)
def test_the_catalogue_passes(name):
    of = load_operator(name)
    job = TraceJob(id="j", search="s", operator=of, shapes=all_shapes(of, 0), target="sm_90")
    graphs = json.loads(export(job.model_dump_json().encode()))["graphs"]
    gate = admit(of, tuple(map(Graph.model_validate, graphs)), limit_s=60.0)
    assert (gate.verdict, gate.reason) == ("passed", "")
    assert gate.kill_rate == 1.0
    assert {entry.verdict for entry in gate.entries if entry.kind == "honest"} == {"passed"}
    assert {entry.verdict for entry in gate.entries if entry.kind == "trivial"} == {"killed"}


def test_a_border_that_few_values_hit_is_the_only_one_that_may_be_missed():
    """Whether some value lies on it, and nudged inputs leave it there, is chance: values are drawn from a secret."""
    of = operator("causal")
    gate = admit(of, graphs_at_points(of), limit_s=60.0)
    survivors = {entry.name for entry in gate.entries if entry.verdict in ("survived", "rejected")}
    assert survivors <= {"gt: border off by one"}


LIKE_LSTM = ("gru", "rnn_relu", "rnn_tanh")
"""Recurrent layers that take the way of an LSTM, half a minute each."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LIKE_LSTM else ())
        for name in sorted(set(REFERENCES) - set(REFUSED) - {"causal"})
    ],
)
def test_what_can_be_judged_is_admitted(name):
    of = operator(name)
    gate = admit(of, graphs_at_points(of), limit_s=60.0)
    assert (gate.verdict, gate.reason) == ("passed", "")
    assert len(gate.shapes) == len(POINTS)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused(name):
    of = operator(name)
    gate = admit(of, graphs_at_points(of), limit_s=60.0)
    assert gate.verdict == "failed"
    assert REFUSED[name] in gate.reason


def test_the_verdict_is_the_same_every_time():
    of = operator("softmax")
    first, again = (admit(of, graphs_at_points(of), limit_s=60.0) for _ in range(2))
    assert first.entries == again.entries


def test_without_time_trivial_answers_are_tried_all_the_same():
    of = operator("softmax")
    gate = admit(of, graphs_at_points(of), limit_s=0.0)
    assert gate.verdict == "untried"
    assert "no time" in gate.reason
    assert {entry.verdict for entry in gate.entries if entry.kind == "trivial"} == {"killed"}
    assert admit(operator("zeros"), graphs_at_points(operator("zeros")), limit_s=0.0).verdict == "failed"


def test_a_reference_that_fails_on_drawn_inputs_is_refused_with_the_remedy():
    of = operator("softmax")
    (graph,) = graphs_of(of, {"M": 3, "N": 7})
    far = Node(op="aten.select.int", args=(InputRef(input=0), 0, 10**6))
    gate = admit(of, (graph.model_copy(update={"nodes": (far,), "outputs": (NodeRef(node=0),)}),))
    assert gate.verdict == "failed" and "the reference fails on drawn inputs: aten.select.int raised" in gate.reason
