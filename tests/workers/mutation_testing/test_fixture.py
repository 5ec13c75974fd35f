"""Grounds: a shape with its reference in two forms, and more cases where they are cheap."""

from tests.workers.mutation_testing.references import graphs_of, operator
from workers.inputs import DRAWS
from workers.mutation_testing.fixture import MORE_ROUNDS, ShapeFixture


def test_both_forms_of_the_reference():
    of = operator("softmax")
    (ground,) = ShapeFixture.all_of(of, graphs_of(of))
    assert {"_softmax"} == {node.name for node in ground.sketch.graph.nodes}
    assert "exp" in {node.name for node in ground.formulas.graph.nodes}


def test_more_cases_at_small_shapes_and_all_plantings_at_the_first():
    of = operator("added")
    first, last = ShapeFixture.all_of(of, graphs_of(of, {"M": 1, "N": 2}, {"M": 6}))
    assert first.graph.shape.key == "M=6,N=40"
    assert len(first.cases) == len(last.cases) == len(DRAWS)
    assert len(last.more_cases) == MORE_ROUNDS * len(DRAWS) < len(first.more_cases)


def test_a_large_shape_has_one_round():
    of = operator("added")
    (ground,) = ShapeFixture.all_of(of, graphs_of(of, {"M": 1024, "N": 128}))
    assert ground.more_cases == ()
