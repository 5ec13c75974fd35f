"""Predicted times: near what was left out, cautious where unsure, and further shapes where the choice turns."""

import math
import random
from collections.abc import Callable, Mapping

import pytest

from service.export.decision_tree import PYTORCH, TimedShape, Tree, choose, features, grow, loss_of
from service.export.sampling import ALIGNED, pool
from service.export.time_model import FEWEST, TimeModel, left_out_loss
from service.operators.catalogue import load_operator
from tests.service.export.measured_times import MATMUL, RMSNORM, W4A16_MATMUL
from workers.protocol import Operator

Sizes = Mapping[str, int]
Time = Callable[[Sizes], float]


def timed(table: tuple[tuple[str, ...], tuple[tuple[tuple[int, ...], float, float], ...]]) -> list[TimedShape]:
    names, rows = table
    return [
        TimedShape(dict(zip(names, sizes, strict=True)), {"elite": own, PYTORCH: eager}) for sizes, own, eager in rows
    ]


def any_size(name: str, sizes: Sizes) -> bool:
    return True


def tree_of(operator: Operator, shapes: list[TimedShape]) -> Tree:
    names = tuple(operator.ranges)
    predicted = TimeModel(shapes, names).at(pool(operator), any_size)
    return grow([*shapes, *predicted], ("elite",), features(names))


@pytest.mark.parametrize(
    ("name", "table", "most"), [("matmul", MATMUL, 1.15), ("w4a16_matmul", W4A16_MATMUL, 1.06)], ids=["dense", "w4"]
)
def test_measured_shapes_that_are_left_out_are_served_by_what_is_faster_there(
    name: str, table: tuple[tuple[str, ...], tuple[tuple[tuple[int, ...], float, float], ...]], most: float
) -> None:
    """The tree that was grown from the sizes alone lost 61 % for w4a16_matmul, and chose a slower kernel at 6 of 22.

    The digest of an operator, its seeds included, draws the sizes whose times are predicted: matmul lost 5 to 11 % with
    seven sets of seeds.
    """
    operator, known, logs = load_operator(name), timed(table), []
    for at, shape in enumerate(known):
        tree = tree_of(operator, [*known[:at], *known[at + 1 :]])
        logs.append(math.log(loss_of(tree, [shape])))
        is_slower = shape.times["elite"] > 1.05 * shape.times[PYTORCH]
        assert not (is_slower and choose(tree, shape.sizes)[0] == "elite"), shape
    assert math.exp(sum(logs) / len(logs)) < most
    told = left_out_loss(known, tuple(operator.ranges))
    assert told is not None and told < most
    assert loss_of(tree_of(operator, known), known) < 1.03


def test_what_is_lost_beside_a_step_at_a_power_of_two_is_lost_at_those_shapes_alone() -> None:
    """The model knows no such steps. The package told 11.5 %, all of them from rows of more than 27,000."""
    known, names = timed(RMSNORM), RMSNORM[0]
    told, narrow = left_out_loss(known, names), [shape for shape in known if shape.sizes["N"] < 27_000]
    assert told is not None and told < 1.12
    assert len(narrow) > len(known) / 2 and left_out_loss(narrow, names) == 1.0


def blocks(sizes: Sizes, rows: int, columns: int) -> float:
    """Waves of blocks on a card with 132 processors."""
    return max(1.0, math.ceil(sizes["M"] / rows) * math.ceil(sizes["N"] / columns) / 132)


WORLDS: dict[str, tuple[str, Time, Time]] = {
    "slow where N is odd": (
        "w4a16_matmul",
        lambda s: 1.2 + s["G"] * (0.75 if s["N"] % ALIGNED == 0 else 5.2) * blocks(s, 32, 128) ** 0.9,
        lambda s: 13 + s["G"] * s["N"] / 1237 + s["M"] * s["G"] * s["N"] / 2e6,
    ),
    "slow in long products": (
        "matmul",
        lambda s: (
            1.6 + s["K"] / 64 * (0.35 if s["K"] % ALIGNED == s["N"] % ALIGNED == 0 else 1.2) * blocks(s, 128, 128)
        ),
        lambda s: 2.8 + s["K"] / 64 * (0.22 if s["N"] % 8 == 0 else 0.75) * blocks(s, 128, 128) ** 0.8,
    ),
    "slow in wide rows": (
        "softmax",
        lambda s: 1.3 + s["M"] * s["N"] / 3.5e5 * (1 if s["N"] <= 8192 else 2.2) + s["N"] / 3000,
        lambda s: 4.5 + s["M"] * s["N"] / 2.7e5 + s["N"] / 4000,
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_with_a_few_further_shapes_hardly_any_shape_of_the_ranges_is_slower_than_pytorch(world: str) -> None:
    name, own, eager = WORLDS[world]
    operator, rng = load_operator(name), random.Random(5)
    tests = pool(operator)
    rng.shuffle(tests)

    def measured(sizes: Sizes) -> TimedShape:
        noise = (math.exp(rng.gauss(0, 0.015)) for _ in range(2))
        return TimedShape(sizes, {"elite": own(sizes) * next(noise), PYTORCH: eager(sizes) * next(noise)})

    def slower(tree: Tree) -> float:
        chosen = [own(sizes) > 1.05 * eager(sizes) and choose(tree, sizes)[0] == "elite" for sizes in tests]
        return sum(chosen) / len(tests)

    def missed(tree: Tree) -> float:
        chosen = [eager(sizes) > 1.05 * own(sizes) and choose(tree, sizes)[0] == PYTORCH for sizes in tests]
        return sum(chosen) / len(tests)

    known, names = [measured(sizes) for sizes in tests[:22]], tuple(operator.ranges)
    for _ in range(2):
        known += [measured(sizes) for sizes in TimeModel(known, names).unsure(tests[22:], 12)]
    tree = tree_of(operator, known)
    assert slower(tree) < 0.03 and missed(tree) < 0.12, (slower(tree), missed(tree))
    assert sum(own(sizes) > 1.05 * eager(sizes) for sizes in tests) / len(tests) > 0.1, "PyTorch has its share"


def test_what_is_clear_is_not_measured_further_and_what_turns_is_measured_where_it_turns() -> None:
    def known(turns: float) -> list[TimedShape]:
        return [
            TimedShape({"N": n}, {"elite": n / turns, PYTORCH: 1.0}) for n in (1, 4, 16, 64, 256, 1024, 4096, 16384)
        ]

    offered = [{"N": n} for n in range(1, 16385)]
    assert TimeModel(known(1e9), ("N",)).unsure(offered, 12) == []
    found = [sizes["N"] for sizes in TimeModel(known(150), ("N",)).unsure(offered, 12)]
    assert found and all(40 < n < 500 for n in found) and len(found) < 12, found


def test_far_from_what_was_measured_pytorch_serves_sooner() -> None:
    shapes = [TimedShape({"N": n}, {"elite": 0.9 + 0.1 * (n % 2), PYTORCH: 1.0}) for n in range(1, 20)]
    near, far = (TimeModel(shapes, ("N",)).at([{"N": n}], any_size)[0].times["elite"] for n in (10, 10**7))
    assert near < far and near < 1


def test_without_times_of_both_nothing_is_predicted() -> None:
    few = [TimedShape({"N": n}, {"elite": 1.0, PYTORCH: 2.0}) for n in range(1, FEWEST)]
    alone = [TimedShape({"N": n}, {"elite": 1.0}) for n in range(1, 99)]
    for shapes in (few, alone, []):
        model = TimeModel(shapes, ("N",))
        assert model.at([{"N": 5}], any_size) == [] and model.unsure([{"N": 5}], 3) == []
        assert left_out_loss(shapes, ("N",)) is None
    equal = [TimedShape({"N": n}, {"elite": 1.0, PYTORCH: 2.0}) for n in range(1, 99)]
    (found,) = TimeModel(equal, ("N",)).at([{"N": 50}], any_size)
    assert found.times == pytest.approx({"elite": 0.5, PYTORCH: 1.0})


def test_a_kernel_has_no_time_where_it_cannot_serve() -> None:
    shapes = [TimedShape({"N": n}, {"elite": 1.0, "other": 1.5, PYTORCH: 2.0}) for n in range(1, 20)]
    found = TimeModel(shapes, ("N",)).at([{"N": 3}, {"N": 4}], lambda name, sizes: name == "other" or sizes["N"] == 3)
    assert [set(each.times) for each in found] == [{"elite", "other", PYTORCH}, {"other", PYTORCH}]
