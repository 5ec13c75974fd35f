"""Cases: which shapes, every draw, fixed values, and the verdict of the checks."""

import torch

from tests.workers.mutation_testing.references import graphs_of, operator
from workers.checks import CHECKS
from workers.inputs import DRAWS
from workers.mutation_testing.cases import PLACES, MutationCase, cases_at, is_small, more_plantings, telling_graphs
from workers.protocol import ShapeRole


def test_small_shapes_are_tried_and_the_smallest_last():
    of = operator("added")
    graphs = graphs_of(of, {"M": 1, "N": 2}, {"M": 64, "N": 512}, {"M": 6}, {"M": 1024, "N": 1024})
    assert [graph.shape.key for graph in telling_graphs(of, graphs)] == ["M=6,N=40", "M=64,N=512", "M=1,N=2"]
    assert not is_small(of, graphs[3])


def test_held_out_shapes_are_left_out_so_that_all_searches_agree():
    of = operator("added")
    (graph,) = graphs_of(of)
    drawn = graph.model_copy(update={"shape": graph.shape.model_copy(update={"role": ShapeRole.HELD_OUT})})
    assert telling_graphs(of, (drawn, graph)) == [graph]


def test_where_nothing_is_small_those_near_the_smallest_are_tried():
    of = operator("added")
    graphs = graphs_of(of, {"M": 2048, "N": 1024}, {"M": 1024, "N": 1024}, {"M": 1100, "N": 1024})
    assert telling_graphs(of, graphs) == [graphs[2], graphs[1]]


def test_every_draw_with_the_same_values_every_time():
    of = operator("rmsnorm")
    (graph,) = graphs_of(of)
    first, again, other = cases_at(of, graph, 0), cases_at(of, graph, 0), cases_at(of, graph, 1)
    assert [case.draw for case in first] == list(DRAWS)
    assert all(
        torch.equal(a.inputs[0].nan_to_num(), b.inputs[0].nan_to_num()) for a, b in zip(first, again, strict=True)
    )
    assert not torch.equal(first[0].inputs[0], other[0].inputs[0])


def test_special_values_reach_every_input_alone_and_together():
    of = operator("added")
    (graph,) = graphs_of(of)
    cases = more_plantings(of, graph)
    found = {tuple(int((~tensor.isfinite()).sum()) for tensor in case.inputs) for case in cases}
    assert found == {(3, 0), (1, 0), (0, 3), (0, 1)}
    alone = [case.inputs[0] for case in cases if case.draw == "lone" and not case.inputs[0].isfinite().all()]
    assert {str(tensor[~tensor.isfinite()].item()) for tensor in alone} == {"nan", "inf", "-inf"}
    assert len(alone) <= 3 * PLACES


def test_a_case_judges_as_candidates_are_judged():
    of = operator("softmax")
    (graph,) = graphs_of(of)
    case = MutationCase.of(of, graph, "normal", "seed")
    assert case.judge(case.reference.native) is None
    verdict = case.judge((case.reference.native[0] * 1.5,))
    assert verdict is not None and verdict.check in CHECKS and "M=6,N=40, normal inputs" in verdict.reason
    assert case.judge((case.reference.native[0].float(),)).check == "output_types"
