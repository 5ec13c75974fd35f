"""What is no fault: the reference in other words, and differences that the output's dtype has no digits for."""

import pytest
import torch

from tests.workers.mutation_testing.mutants.spoiling import spoiled
from tests.workers.mutation_testing.references import graphs_of, operator, results
from workers.mutation_testing.builder import TypedGraph, rewrite
from workers.mutation_testing.cases import MutationCase, cases_at
from workers.mutation_testing.equality import HonestErrors, are_rounded_away, is_equal, is_identical
from workers.mutation_testing.fixture import ShapeFixture
from workers.protocol import Graph, Operator


def written(name: str | Operator, **point: int) -> tuple[TypedGraph, list[MutationCase]]:
    of = operator(name) if isinstance(name, str) else name
    (fixture,) = ShapeFixture.all_of(of, graphs_of(of, {"M": 64, **point}))
    return fixture.formulas, list(fixture.cases)


def lost(sketch: TypedGraph, cases: list[MutationCase], name: str, *, rounds: bool = False) -> bool:
    return is_lost(spoiled(sketch, name, cases[0].operator), cases, rounds=rounds)


def is_lost(graph: Graph, cases: list[MutationCase], *, rounds: bool = False) -> bool:
    fixture = ShapeFixture(cases[0].operator, cases[0].graph, tuple(cases), is_most_telling=False)
    mutant = TypedGraph.of(graph, cases[0].inputs)
    return are_rounded_away([(mutant, case, fixture.honest_errors(case)) for case in cases], rounds=rounds)


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


@pytest.mark.parametrize(("factor", "hidden"), [(1.0001, True), (1.001, False), (1.02, False)])
def test_a_factor_is_lost_if_rounding_hides_it_over_many_rows(factor, hidden):
    sketch, cases = written("silu")

    def scale(draft, node, index):
        last = index == len(sketch.graph.nodes) - 1
        return draft.cast(draft.call("mul.Tensor", node.args[0], factor), torch.bfloat16) if last else None

    assert is_lost(rewrite(sketch, scale), cases) == hidden


def test_the_third_digit_of_a_coefficient_is_lost_in_bfloat16_and_not_in_float32():
    sketch, cases = written("gelu")
    assert lost(sketch, cases, "mul 1: constant larger by 1%")
    wide = operator(
        "gelu",
        inputs=[{"name": "x", "shape": ["M", "N"], "dtype": "float32"}],
        outputs=[{"name": "y", "dtype": "float32"}],
    )
    assert not lost(*written(wide), "mul 1: constant larger by 1%")


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


def half(name: str, dtype: str) -> Operator:
    """The operator in a narrower dtype throughout."""
    of = operator(name).model_dump()
    for item in (*of["inputs"], *of["outputs"]):
        item["dtype"] = dtype
    return Operator.model_validate(of)


def test_arithmetic_of_the_operators_own_dtype_is_lost():
    sketch, cases = written(half("product", "float16"), N=64, K=40)
    assert lost(sketch, cases, "all arithmetic in float16", rounds=True)
    assert not lost(sketch, cases, "all arithmetic in bfloat16", rounds=True)
    assert not lost(sketch, cases, "output 'out0': scaled by 1.001")


def test_what_cancels_in_right_answers_too_is_lost():
    """Rows of equal values have no variance: the result is rounding, with the mutant's constant or without."""
    sketch, cases = written("gelu_layer_norm", N=2048)
    assert any(bool((case.reference.native[0] == 0).all(-1).any()) for case in cases)
    assert lost(sketch, cases, "mul 1: constant larger by 1%")
    assert not lost(sketch, cases, "mean 1: a tenth left out")


def test_errors_of_right_answers_are_the_largest_of_each_row():
    _, cases = written("product")
    native, off = cases[0].reference.native, (cases[0].reference.native[0] + 0.5,)
    (right,), (wrong,) = HonestErrors.of(cases[0], [native]), HonestErrors.of(cases[0], [native, off])
    assert right.rows.shape == wrong.rows.shape and float(right.rows.max()) < 1e-3
    assert float(wrong.rows.min()) == pytest.approx(0.5, rel=1e-3)
