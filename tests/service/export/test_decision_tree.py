"""Decision trees: few questions, no time lost that they could save, PyTorch where it is faster."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from service.export import decision_tree
from service.export.decision_tree import (
    MAX_DEPTH,
    PYTORCH,
    Feature,
    Leaf,
    Question,
    TimedShape,
    Tree,
    choose,
    features,
    loss_of,
)

ASKED = features(("M", "N"))


def grow(shapes: Sequence[TimedShape], choices: Sequence[str]) -> Tree:
    return decision_tree.grow(shapes, choices, ASKED)


def shape(m: int, n: int = 7, **times: float) -> TimedShape:
    return TimedShape({"M": m, "N": n}, times)


def depth(tree: Tree) -> int:
    return 0 if isinstance(tree, Leaf) else 1 + max(depth(tree.below), depth(tree.above))


SIZES = (1, 2, 8, 9, 500, 4000)


def test_questions_are_about_sizes_their_products_and_their_divisibility() -> None:
    found = features(("M", "K", "N"), ("bias",))
    names = ["*".join(each.sizes) + (f"%{each.modulo}" if each.modulo else "") for each in found]
    assert names == ["M", "K", "N", "bias", "M*K", "M*N", "K*N", "M*K*N", "M%16", "K%16", "N%16"]
    assert [each.of({"M": 3, "K": 32, "N": 5, "bias": 0}) for each in found] == [
        *(3, 32, 5, 0, 96, 15, 160, 480),
        *(3, 0, 5),
    ]
    assert len(features(("M",))) == 2 and features(()) == ()


def test_a_question_divides_shapes_that_want_other_kernels() -> None:
    timed = [shape(m, a=1.0 if m < 100 else 3.0, b=2.0) for m in SIZES]
    tree = grow(timed, ("a", "b"))
    assert isinstance(tree, Question) and tree.feature == Feature(("M",)) and 9 <= tree.limit < 500
    assert [choose(tree, {"M": m, "N": 1})[0] for m in (1, tree.limit, tree.limit + 1, 9000)] == ["a", "a", "b", "b"]
    assert loss_of(tree, timed) == 1.0 and loss_of(Leaf(("a",)), timed) == 1.5 ** (1 / 3)


def test_alignment_and_work_are_asked_for() -> None:
    odd = [shape(m, n, a=1.0 if n % 16 == 0 else 9.0, **{PYTORCH: 2.0}) for m in SIZES for n in (15, 16, 17, 48, 50)]
    assert isinstance(tree := grow(odd, ("a",)), Question)
    assert tree.feature == Feature(("N",), 16) and tree.limit < 1 and loss_of(tree, odd) == 1.0
    work = [shape(m, n, a=1.0 if m * n < 999 else 9.0, b=2.0) for m in SIZES for n in SIZES]
    assert isinstance(tree := grow(work, ("a", "b")), Question)
    assert tree.feature == Feature(("M", "N")) and loss_of(tree, work) == 1.0


def test_a_corner_that_no_single_question_cuts_off_is_found() -> None:
    """Only large M together with small N wants another kernel: one question alone saves no time."""
    grid = [shape(m, n, a=4.0 if m > 64 and n < 32 else 1.0, b=2.0) for m in range(1, 129, 3) for n in range(1, 129, 3)]
    tree = grow(grid, ("a", "b"))
    assert loss_of(tree, grid) == 1.0 and depth(tree) == 2


def test_differences_like_noise_and_single_shapes_make_no_question() -> None:
    assert grow([shape(m, a=1.0, b=0.995 if m > 8 else 1.007) for m in SIZES], ("a", "b")) == Leaf(("a", "b"))
    assert grow([shape(m, a=1.0, b=0.5 if m == 4000 else 2.0) for m in SIZES], ("a", "b")) == Leaf(("a", "b"))
    few = [shape(m, a=1.0, b=0.5 if m > 9995 else 2.0) for m in range(1, 10_000)]
    assert grow(few, ("a", "b")) == Leaf(("a", "b")), "a question about one shape in thousands is not worth reading"


def test_pytorch_ends_the_order_where_it_is_faster() -> None:
    timed = [shape(m, a=1.0 if m < 100 else 3.0, **{PYTORCH: 2.0}) for m in SIZES]
    tree = grow(timed, ("a",))
    assert choose(tree, {"M": 5, "N": 7}) == ("a", PYTORCH) and choose(tree, {"M": 4000, "N": 7}) == (PYTORCH,)


def test_what_was_not_timed_is_tried_in_the_given_order() -> None:
    assert grow([], ("a", "b")) == Leaf(("a", "b")) and loss_of(Leaf(("a",)), []) == 1.0
    assert grow([shape(m, b=1.0) for m in SIZES], ("a", "b")) == Leaf(("b", "a"))
    holed = [shape(m, **({"a": 1.0} if m > 8 else {}), b=3.0) for m in SIZES]
    assert choose(grow(holed, ("a", "b")), {"M": 4000, "N": 7})[0] == "a"


def test_limits_have_few_digits() -> None:
    grid = [shape(m, a=1.0 if m <= 1234 else 3.0, b=2.0) for m in (1200, 1234, 1280, 1290, 4000)]
    tree = grow(grid, ("a", "b"))
    assert isinstance(tree, Question) and tree.limit == 1260
    tree = grow([shape(m, a=1.0 if m <= 100 else 3.0, b=2.0) for m in (3, 90, 5000, 8000)], ("a", "b"))
    assert isinstance(tree, Question) and tree.limit == 700


@given(st.lists(st.tuples(st.integers(1, 9000), st.floats(1, 9), st.floats(1, 9)), min_size=1, max_size=30))
def test_a_tree_is_small_and_no_worse_than_any_single_choice(times: list[tuple[int, float, float]]) -> None:
    timed = [shape(m, a=one, b=other) for m, one, other in times]
    tree = grow(timed, ("a", "b"))
    assert depth(tree) <= MAX_DEPTH
    assert loss_of(tree, timed) <= min(loss_of(Leaf((name,)), timed) for name in "ab") * (1 + 1e-9)
