"""What is no fault: the reference in other words, and differences that the output's dtype has no digits for."""

import pytest
import torch

from tests.workers.mutation_testing.mutants.spoiling import spoiled
from tests.workers.mutation_testing.references import graphs_of, operator, results
from workers.mutation_testing.builder import TypedGraph, rewrite
from workers.mutation_testing.cases import MutationCase, cases_at
from workers.mutation_testing.equality import are_rounded_away, is_equal, is_identical
from workers.mutation_testing.formulas import written_out


def written(name: str, **point: int) -> tuple[TypedGraph, list[MutationCase]]:
    of = operator(name)
    (graph,) = graphs_of(of, {"M": 64, **point})
    cases = cases_at(of, graph, 0)
    return TypedGraph.of(written_out(TypedGraph.of(graph, cases[0].inputs)), cases[0].inputs), cases


def lost(sketch: TypedGraph, cases: list[MutationCase], name: str, *, rounds: bool = False) -> bool:
    mutant = TypedGraph.of(spoiled(sketch, name, cases[0].operator), cases[0].inputs)
    return are_rounded_away([(mutant, case) for case in cases], rounds=rounds)


def test_the_reference_is_equal_and_identical_to_itself():
    for name in ("rmsnorm", "largest", "loss"):
        of = operator(name)
        (graph,) = graphs_of(of)
        for case in cases_at(of, graph, 0):
            assert is_equal(graph, case) and is_identical(case.reference.native, case)


def test_another_order_of_summation_is_equal_but_not_identical():
    sketch, cases = written("softmax")
    assert all(is_equal(sketch.graph, case) for case in cases)
    shifted = torch.nextafter(cases[0].reference.native[0], torch.tensor(1.0).bfloat16())
    assert not is_identical((shifted,), cases[0])


def test_a_mutant_is_not_equal():
    sketch, cases = written("rmsnorm")
    assert not is_equal(spoiled(sketch, "mean: divided by one less", cases[0].operator), cases[0])


def test_a_nan_elsewhere_is_not_equal():
    sketch, cases = written("silu")
    planted = next(case for case in cases if case.draw == "planted")
    assert not is_equal(spoiled(sketch, "input 'x': NaN swallowed", planted.operator), planted)
    assert not lost(sketch, [planted], "input 'x': NaN swallowed")


def test_an_infinity_is_the_largest_number_where_float32_overflows():
    sketch, cases = written("doubled")
    planted = next(case for case in cases if case.inputs[0].isinf().any())
    swallowed = "input 'x': infinities swallowed"
    assert not is_equal(spoiled(sketch, swallowed, planted.operator), planted)
    assert lost(sketch, [planted], swallowed)


@pytest.mark.parametrize(("factor", "is_lost"), [(1.0001, True), (1.001, False), (1.02, False)])
def test_a_factor_is_lost_if_rounding_hides_it_over_many_rows(factor, is_lost):
    sketch, cases = written("silu")

    def scale(draft, node, index):
        last = index == len(sketch.graph.nodes) - 1
        return draft.cast(draft.call("mul.Tensor", node.args[0], factor), torch.bfloat16) if last else None

    mutant = TypedGraph.of(rewrite(sketch, scale), cases[0].inputs)
    assert are_rounded_away([(mutant, case) for case in cases], rounds=False) == is_lost


def test_the_third_digit_of_a_coefficient_is_lost_in_bfloat16_and_not_in_float32():
    sketch, cases = written("gelu")
    assert lost(sketch, cases, "mul 1: constant larger by 1%")
    wide = operator(
        "gelu",
        inputs=[{"name": "x", "shape": ["M", "N"], "dtype": "float32"}],
        outputs=[{"name": "y", "dtype": "float32"}],
    )
    (graph,) = graphs_of(wide)
    again = cases_at(wide, graph, 0)
    assert not lost(
        TypedGraph.of(written_out(TypedGraph.of(graph, again[0].inputs)), again[0].inputs),
        again,
        "mul 1: constant larger by 1%",
    )


def test_rounding_in_between_is_lost_if_it_is_finer_than_the_output():
    sketch, cases = written("softmax", N=512)
    assert lost(sketch, cases, "sum: added up in float16", rounds=True)
    wide, others = written("product")
    assert not lost(wide, others, "mm: added up in float16", rounds=True)


@pytest.mark.parametrize("name", ["small values of a row lost", "a digit fewer"])
def test_float8_hides_no_more_than_what_it_is_rounded_from(name):
    sketch, cases = written("quantised")
    assert not lost(sketch, cases, f"output 'out0': {name}", rounds="digit" in name)
    assert all(case.judge(case.reference.native) is None for case in cases)


def test_integers_round_nothing_away():
    sketch, cases = written("largest")
    assert not lost(sketch, cases, "argmax: smallest for largest")


def test_what_the_reference_leaves_open_is_left_open():
    sketch, cases = written("rmsnorm")
    open_ = results(sketch.graph, cases[0].inputs)
    assert is_identical(open_, cases[0]) == torch.equal(open_[0], cases[0].reference.native[0])
