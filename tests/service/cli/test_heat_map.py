"""The terminal's pictures show every filled cell, the best of slices, and what the figures are."""

from collections.abc import Sequence

from rich.console import Console

from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from archive.records import AxisRecord, EliteRecord
from kernelreef.models import Archive
from service.api.builders import archive_of
from service.cli.heat_map import elite_table, heat_map
from tests.service import records
from workers.protocol import PROTOCOL_VERSION

AXES = tuple(DESCRIPTORS[name].axis for name in ("num_warps", "launches", "registers"))


def _archive(axes: tuple[AxisRecord, ...] = AXES, elites: Sequence[EliteRecord] = ()) -> Archive:
    return archive_of(records.search(axes=axes), records.DEVICE, elites, ())


def _print(table: object) -> str:
    console = Console(width=200, record=True)
    console.print(table)
    return console.export_text()


def _cell(warps: int, launches: int, registers: int) -> int:
    bins = dict(zip(("num_warps", "launches", "registers"), (warps, launches, registers), strict=True))
    index = Grid(AXES).index({name: {"value": 0.0, "bin": place} for name, place in bins.items()})
    assert index is not None
    return index


def test_a_heat_map_shows_the_best_of_each_slice() -> None:
    elites = [
        records.elite(cell=_cell(1, 0, 0), objective=1.25),
        records.elite(cell=_cell(1, 0, 1), objective=1.5),
        records.elite(cell=_cell(2, 1, 0), objective=0.75),
    ]
    text = _print(heat_map(_archive(elites=elites)))
    assert "1.50" in text and "0.75" in text and "1.25" not in text
    assert all(label in text for label in DESCRIPTORS["num_warps"].labels)


def test_an_empty_archive_is_a_map_of_dots() -> None:
    text = _print(heat_map(_archive()))
    assert text.count("·") == AXES[0].bins * AXES[1].bins


def test_a_grid_of_one_axis_can_be_drawn() -> None:
    text = _print(heat_map(_archive(AXES[:1], [records.elite(cell=2, objective=1.5)])))
    assert "1.50" in text


def test_elites_of_an_older_protocol_are_marked_and_explained() -> None:
    fresh, older = records.elite(objective=1.75, protocol_version=PROTOCOL_VERSION), records.elite(protocol_version=1)
    text = _print(elite_table(_archive(records.search().axes, [fresh, older])))
    assert "1.750x " in text and "1.250x*" in text and "* judged by an older protocol" in text
    assert "protocol" not in _print(elite_table(_archive(records.search().axes, [fresh])))


def test_elites_come_best_first_with_their_place_in_words() -> None:
    better = records.elite(objective=1.75, candidate="candidate-2")
    text = _print(elite_table(_archive(records.search().axes, [records.elite(), better])))
    assert text.index("1.750x") < text.index("1.250x")
    assert DESCRIPTORS["num_warps"].labels[2] in text and "PREDICTED" in text


def test_at_80_columns_no_figure_and_no_emitter_is_cut() -> None:
    axes = tuple(DESCRIPTORS[name].axis for name in ("programs_per_sm", "num_warps", "registers", "shared_bytes"))
    id = "0190a000-0000-7000-8000-00000000abcd"
    where = {axis.descriptor: {"value": 1.0, "bin": axis.bins - 1} for axis in axes}
    elites = [
        records.elite(candidate=id, objective=1234.567, emitter="rewrite", coordinates=where),
        records.elite(candidate=id, objective=0.965, emitter="tune", coordinates=where, cell=1),
    ]
    console = Console(width=80, record=True)
    console.print(elite_table(_archive(axes, elites)))
    text = console.export_text()
    assert "1234.567x" in text and "0.965x" in text and "rewrite" in text and "\u2026" not in text
    assert text.count(" 00abcd ") == 2
    assert max(map(len, text.splitlines())) <= 80
    assert "64 or more" in text and "over 99" in text
