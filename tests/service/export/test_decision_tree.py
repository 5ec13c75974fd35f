"""Decision trees: few questions, no time lost that they could save, PyTorch where it is faster."""

from hypothesis import given
from hypothesis import strategies as st

from service.export.decision_tree import MAX_DEPTH, PYTORCH, Leaf, Question, TimedShape, Tree, choose, grow, loss_of


def shape(m: int, **times: float) -> TimedShape:
    return TimedShape({"M": m, "N": 7}, times)


def depth(tree: Tree) -> int:
    return 0 if isinstance(tree, Leaf) else 1 + max(depth(tree.below), depth(tree.above))


SIZES = (1, 2, 8, 9, 500, 4000)


def test_a_question_divides_shapes_that_want_other_kernels() -> None:
    timed = [shape(m, a=1.0 if m < 100 else 3.0, b=2.0) for m in SIZES]
    tree = grow(timed, ("a", "b"))
    assert isinstance(tree, Question) and tree.size == "M" and 9 <= tree.limit < 500
    assert [choose(tree, {"M": m, "N": 1})[0] for m in (1, tree.limit, tree.limit + 1, 9000)] == ["a", "a", "b", "b"]
    assert loss_of(tree, timed) == 1.0 and loss_of(Leaf(("a",)), timed) == 1.5 ** (1 / 3)


def test_differences_like_noise_and_single_shapes_make_no_question() -> None:
    assert grow([shape(m, a=1.0, b=0.995 if m > 8 else 1.007) for m in SIZES], ("a", "b")) == Leaf(("a", "b"))
    assert grow([shape(m, a=1.0, b=0.5 if m == 4000 else 2.0) for m in SIZES], ("a", "b")) == Leaf(("a", "b"))


def test_pytorch_ends_the_order_where_it_is_faster() -> None:
    timed = [shape(m, a=1.0 if m < 100 else 3.0, **{PYTORCH: 2.0}) for m in SIZES]
    tree = grow(timed, ("a",))
    assert choose(tree, {"M": 5, "N": 7}) == ("a", PYTORCH) and choose(tree, {"M": 4000, "N": 7}) == (PYTORCH,)


def test_what_was_not_timed_is_tried_in_the_given_order() -> None:
    assert grow([], ("a", "b")) == Leaf(("a", "b")) and loss_of(Leaf(("a",)), []) == 1.0
    assert grow([shape(m, b=1.0) for m in SIZES], ("a", "b")) == Leaf(("b", "a"))
    holed = [shape(m, **({"a": 1.0} if m > 8 else {}), b=3.0) for m in SIZES]
    assert choose(grow(holed, ("a", "b")), {"M": 4000, "N": 7})[0] == "a"


@given(st.lists(st.tuples(st.integers(1, 9000), st.floats(1, 9), st.floats(1, 9)), min_size=1, max_size=30))
def test_a_tree_is_small_and_no_worse_than_any_single_choice(times: list[tuple[int, float, float]]) -> None:
    timed = [shape(m, a=one, b=other) for m, one, other in times]
    tree = grow(timed, ("a", "b"))
    assert depth(tree) <= MAX_DEPTH
    assert loss_of(tree, timed) <= min(loss_of(Leaf((name,)), timed) for name in "ab") * (1 + 1e-9)
