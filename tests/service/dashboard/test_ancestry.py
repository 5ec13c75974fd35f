import httpx
import pytest

from archive.records import Relative
from service.dashboard.ancestry import lay_out_tree
from service.dashboard.lineages import STEP_X, STEP_Y
from tests.service.dashboard.conftest import Filled
from tests.service.dashboard.reading import read


def kin(id: str, ordinal: int, *parents: str) -> Relative:
    return Relative(id, ordinal, "tune", parents, "", "correct", {}, 0)


def test_no_two_candidates_share_a_place_and_children_stand_right_of_their_parent() -> None:
    family = [kin("a", 2, "seed"), kin("b", 3, "seed"), kin("a1", 4, "a"), kin("a2", 5, "a"), kin("seed", 0)]
    drawn = lay_out_tree([*family, kin("other", 1), kin("both", 6, "b", "a2")])
    places = {node.kin.id: ((node.x - 1) // STEP_X, (node.y - 1) // STEP_Y) for node in drawn.nodes}
    assert places == {
        "seed": (0, 0), "a": (1, 0), "a1": (2, 0), "a2": (2, 1), "b": (1, 2), "both": (2, 2), "other": (0, 3),
    }  # fmt: skip
    assert len(drawn.lines) == 6, "a line from every parent"
    assert drawn.width > 2 * STEP_X and drawn.height > 3 * STEP_Y and not drawn.cut


def test_one_whose_parents_are_unknown_is_a_root() -> None:
    drawn = lay_out_tree([kin("late", 9, "forgotten")])
    assert drawn.cut and drawn.nodes[0].x == 1 and drawn.lines == ()
    assert lay_out_tree([]).nodes == ()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_draws_elites_and_their_ancestors(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/searches/{filled.search.id}/ancestry"))
    links = [str(link["href"]) for link in page.all("a")]
    assert {f"/candidates/{filled.best}", f"/candidates/{filled.first}"} <= set(links)
