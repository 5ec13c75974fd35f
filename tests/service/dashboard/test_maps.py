from datetime import timedelta

import pytest

from archive.records import AxisRecord, EliteSummary, MapCell, PinRecord
from archive.store import Store
from service.dashboard.maps import MapView, draw, load_cells, mark_provisional
from service.errors import InvalidInput
from tests.archive.samples import DEVICE, offer, stored_candidate, stored_search
from tests.service import records
from workers.protocol import PROTOCOL_VERSION

AXES = (AxisRecord("num_warps", 6), AxisRecord("registers", 5), AxisRecord("memory_path", 3))
SEARCH = records.search(axes=AXES)


def mark(warps: int, registers: int, path: int, objective: float, **changes: object) -> EliteSummary:
    values: dict[str, object] = {
        "cell": (warps * 5 + registers) * 3 + path,
        "candidate": f"{warps}-{registers}-{path}",
        "variant": 0,
        "emitter": "tune",
        "objective": objective,
        "low": objective,
        "mid": objective,
        "high": objective,
        "revision": 1,
        "placed_at": records.NOW,
    }
    return EliteSummary(**{**values, **changes})  # type: ignore[arg-type]


MARKS = [mark(1, 2, 0, 3.0), mark(1, 2, 1, 2.0), mark(5, 0, 2, 1.0), mark(0, 4, 0, 0.6)]


def placed(x: int, y: int, found: EliteSummary, held: int = 1) -> MapCell:
    return MapCell(x, y, held, found)


def pin(cell: int | None = None, candidate: str | None = None) -> PinRecord:
    return PinRecord("p", SEARCH.id, "model:sm_90", cell, candidate, "", records.NOW)


PLACES = [placed(1, 2, MARKS[0], 2), placed(5, 0, MARKS[2]), placed(0, 4, MARKS[3])]


async def test_places_are_read_as_the_view_says(store: Store) -> None:
    search = await stored_search(store, axes=AXES)
    candidate = await stored_candidate(store, search.id)
    for each in MARKS:
        await store.elites.offer(offer(search.id, candidate, each.objective, cell=each.cell))
    found = {(place.x, place.y, place.held) for place in await load_cells(store, search, MapView.of(search, {}))}
    assert found == {(1, 2, 2), (5, 0, 1), (0, 4, 1)}
    turned = MapView.of(search, {"x": "memory_path", "y": "num_warps", "registers": "2"})
    assert {(place.x, place.y) for place in await load_cells(store, search, turned)} == {(0, 1), (1, 1)}


async def test_tiles_without_an_elite_show_their_provisional_holder_and_are_sent_as_all_others(store: Store) -> None:
    search = await stored_search(store, axes=AXES)
    candidate = await stored_candidate(store, search.id)
    for cell, low in ((MARKS[0].cell, 9.0), (0, 1.5), (1, 1.7)):
        held = offer(search.id, candidate, low, cell=cell, low=low, mid=low, high=low)
        await store.provisional.hold(held, 0.005)
    provisional = await store.provisional.list(search.id, DEVICE, 1)
    view = MapView.of(search, {})
    drawn = mark_provisional(draw(search, view, PLACES, records.NOW), search, view, provisional)
    shown = {tile.name: tile.waiting.objective for tile in drawn.tiles if tile.waiting is not None}
    assert shown == {"at-0-0": 1.7} and drawn.provisional, "the best of a tile, and none beside an elite"
    assert {tile.look for tile in drawn.tiles if tile.waiting} == {"provisional"}
    assert len({hash(tile) for tile in drawn.tiles}) > 1, "rendered tiles are kept by their values"


def test_squares_of_an_older_protocol_are_marked_with_a_legend() -> None:
    older, ours = (mark(1, 2, 0, 3.0, protocol_version=version) for version in (1, PROTOCOL_VERSION))
    places = [placed(1, 2, older), placed(5, 0, ours), placed(0, 4, MARKS[3])]
    drawn = draw(SEARCH, MapView.of(SEARCH, {}), places, records.NOW)
    assert drawn.older and [tile.name for tile in drawn.tiles if tile.older] == ["at-1-2"]
    assert not draw(SEARCH, MapView.of(SEARCH, {}), PLACES, records.NOW).older


def test_a_square_shows_the_best_over_the_axes_that_are_not_drawn() -> None:
    drawn = draw(SEARCH, MapView.of(SEARCH, {}), PLACES, records.NOW)
    assert (len(drawn.rows), len(drawn.columns), drawn.depth, drawn.held) == (5, 6, 3, 4)
    tile = drawn.rows[2].tiles[1]
    assert tile.mark is not None and (tile.mark.candidate, tile.held) == ("1-2-0", 2)
    assert drawn.rows[4].tiles[5].look == "shade-1"
    assert drawn.rows[0].tiles[0].look == "slower-2"
    assert sum(each.mark is not None for row in drawn.rows for each in row.tiles) == 3


def test_a_slice_leaves_the_others_out() -> None:
    view = MapView.of(SEARCH, {"memory_path": "1"})
    drawn = draw(SEARCH, view, PLACES[:1], records.NOW)
    assert (drawn.held, drawn.depth) == (2, 1)
    assert [choice.chosen for choice in drawn.choices] == [1]


def test_axes_may_change_places() -> None:
    drawn = draw(
        SEARCH, MapView.of(SEARCH, {"x": "memory_path", "y": "num_warps"}), [placed(2, 5, MARKS[2])], records.NOW
    )
    assert (len(drawn.rows), len(drawn.columns), drawn.depth) == (6, 3, 5)
    assert drawn.rows[0].tiles[2].mark is not None


def test_a_grid_of_one_axis_is_a_single_row() -> None:
    search = records.search()
    drawn = draw(search, MapView.of(search, {}), [placed(2, 0, mark(0, 0, 0, 1.5, cell=2))], records.NOW)
    assert len(drawn.rows) == 1 and drawn.rows[0].label == ""
    assert drawn.rows[0].tiles[2].look == "shade-7"


def test_colours_may_mean_age_or_emitter() -> None:
    old = mark(0, 0, 0, 2.0, placed_at=records.NOW - timedelta(hours=2))
    new = mark(1, 0, 0, 1.0, emitter="rewrite")
    places = [placed(0, 0, old), placed(1, 0, new)]
    by_age = draw(SEARCH, MapView.of(SEARCH, {"colour": "age"}), places, records.NOW)
    by_emitter = draw(SEARCH, MapView.of(SEARCH, {"colour": "emitter"}), places, records.NOW)
    assert [each.look for each in by_age.rows[4].tiles[:2]] == ["shade-4", "shade-7"]
    assert [each.look for each in by_emitter.rows[4].tiles[:2]] == ["hue-1", "hue-2"]
    assert by_emitter.legend == (("hue-0", "seed"), ("hue-1", "tune"), ("hue-2", "rewrite"))


def test_what_is_pinned_is_marked_wherever_it_falls() -> None:
    pins = [pin(cell=MARKS[1].cell), pin(candidate="5-0-2"), pin(cell=2)]
    drawn = draw(SEARCH, MapView.of(SEARCH, {}), PLACES, records.NOW, pins=pins)
    assert {each.name for each in drawn.tiles if each.pinned} == {"at-1-2", "at-5-0", "at-0-0"}
    assert drawn.pinned
    sliced = draw(SEARCH, MapView.of(SEARCH, {"memory_path": "0"}), PLACES, records.NOW, pins=pins[:1])
    assert not sliced.pinned, "its cell is outside of the slice"


def test_an_empty_archive_has_a_legend_all_the_same() -> None:
    drawn = draw(SEARCH, MapView.of(SEARCH, {}), [], records.NOW)
    assert drawn.held == 0 and drawn.legend == ()


def test_a_view_leads_back_to_itself() -> None:
    asked = {"device": "model:sm_90", "x": "registers", "y": "memory_path", "num_warps": "3", "colour": "age"}
    view = MapView.of(SEARCH, asked)
    assert view.address() == "?device=model%3Asm_90&x=registers&y=memory_path&num_warps=3&colour=age"
    assert view.address(along="time").endswith("&along=time")


@pytest.mark.parametrize(
    "query", [{"x": "nonsense"}, {"device": "h200"}, {"colour": "red"}, {"memory_path": "9"}, {"memory_path": "\u0663"}]
)
def test_what_a_search_does_not_have_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        MapView.of(SEARCH, query)
    assert caught.value.field in query
