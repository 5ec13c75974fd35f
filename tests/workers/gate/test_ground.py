"""Grounds: a shape with its reference in two forms, and more cases where they are cheap."""

from tests.workers.gate.references import graphs_of, operator
from workers.gate.drafting import name_of
from workers.gate.ground import MORE_ROUNDS, Ground
from workers.inputs import DRAWS


def test_both_forms_of_the_reference():
    of = operator("softmax")
    (ground,) = Ground.all_of(of, graphs_of(of))
    assert {"_softmax"} == {name_of(node) for node in ground.sketch.graph.nodes}
    assert "exp" in {name_of(node) for node in ground.formulas.graph.nodes}


def test_more_cases_at_small_shapes_and_all_plantings_at_the_first():
    of = operator("added")
    first, last = Ground.all_of(of, graphs_of(of, {"M": 1, "N": 2}, {"M": 6}))
    assert first.graph.shape.key == "M=6,N=40"
    assert len(first.cases) == len(last.cases) == len(DRAWS)
    assert len(last.more_cases) == MORE_ROUNDS * len(DRAWS) < len(first.more_cases)


def test_a_large_shape_has_one_round():
    of = operator("added")
    (ground,) = Ground.all_of(of, graphs_of(of, {"M": 1024, "N": 128}))
    assert ground.more_cases == ()
