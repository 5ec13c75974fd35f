from archive.records import Relative
from service.dashboard.lineages import MOST_IN_A_COLUMN, STEP_X, lay_out


def kin(id: str, ordinal: int, generation: int, *parents: str) -> Relative:
    return Relative(id, ordinal, "tune", parents, "", "correct", {}, generation)


def test_generations_go_from_left_to_right() -> None:
    drawn = lay_out([kin("child", 3, 0, "a", "b"), kin("a", 1, 1, "seed"), kin("b", 2, 1, "seed"), kin("seed", 0, 2)])
    places = {node.kin.id: (node.x, node.y) for node in drawn.nodes}
    assert [places[id][0] for id in ("seed", "a", "child")] == [1, 1 + STEP_X, 1 + 2 * STEP_X]
    assert places["a"][1] < places["child"][1] < places["b"][1]
    assert len(drawn.lines) == 4 and not drawn.cut


def test_children_stand_to_the_right_and_their_other_parents_are_left_out() -> None:
    family = [
        kin("self", 2, 0, "seed"),
        kin("seed", 0, 1),
        kin("one", 3, -1, "self"),
        kin("two", 4, -1, "self", "other"),
    ]
    drawn = lay_out(family)
    places = {node.kin.id: node.x for node in drawn.nodes}
    assert places["seed"] < places["self"] < places["one"] == places["two"]
    assert len(drawn.lines) == 3 and not drawn.cut
    assert drawn.width > places["two"] + 1


def test_what_is_not_drawn_is_said() -> None:
    assert lay_out([kin("child", 3, 0, "older")]).cut
    parents = [f"p{number}" for number in range(MOST_IN_A_COLUMN + 1)]
    many = lay_out([kin("child", 99, 0, *parents), *(kin(each, at, 1) for at, each in enumerate(parents))])
    assert many.cut and len(many.nodes) == MOST_IN_A_COLUMN + 1


def test_nobody_has_no_drawing() -> None:
    assert lay_out([]).nodes == ()
