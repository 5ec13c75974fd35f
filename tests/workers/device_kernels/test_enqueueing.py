import ctypes
import struct
from collections.abc import Iterator

import pytest

from tests.workers.paper_driver import Launched, Paper
from tests.workers.runner.plans import support_kernels, supported
from workers.device_kernels import MAX_DELAYS, ClockReading, ContentJob, ContentKind, ContentSpec, DeviceKernels
from workers.errors import ToolMissing

NORMAL = ContentSpec("bfloat16", 10_000, ContentKind.NORMAL, -1.5, 2.0)
EVEN = ContentSpec("float32", 20, ContentKind.UNIFORM, 0.0, 1e300)
DICE = ContentSpec("int32", 10_000, ContentKind.INTEGERS, -3, 4)

IN_THREE_WORDS = ("fill_zones", "count_zones", "sum_up")


class Watched:
    """Kernels of ours on paper, and the tables that they were launched with."""

    def __init__(self, paper: Paper, support: DeviceKernels) -> None:
        self.paper = paper
        self.support = support
        self.tables: list[tuple[Launched, list[int]]] = []
        for name in support_kernels():
            paper.deeds[name] = self._look

    def _look(self, launched: Launched) -> None:
        words = 3 if launched.does in IN_THREE_WORDS else 2
        table = (ctypes.c_uint64 * (words * launched.grid[1])).from_address(launched.parameters[0])
        self.tables.append((launched, list(table)))


@pytest.fixture
def watched() -> Iterator[Watched]:
    with supported() as (paper, support):
        yield Watched(paper, support)


def test_equal_specs_are_filled_together(watched: Watched) -> None:
    jobs = [ContentJob(256, NORMAL, 2**64 - 1), ContentJob(512, DICE, 5), ContentJob(768, NORMAL, 6)]
    watched.support.fill_content(5, jobs)
    (floats, first), (integers, second) = watched.tables
    assert (floats.does, floats.grid, first) == ("fill_bfloat16", (5, 2, 1), [256, 2**64 - 1, 768, 6])
    assert (integers.does, integers.grid, second) == ("fill_int32", (5, 1, 1), [512, 5])


def test_contents_are_passed_as_bits(watched: Watched) -> None:
    watched.support.fill_content(5, [ContentJob(0, spec, 1) for spec in (NORMAL, EVEN, DICE)])
    normal, even, dice = (launched.parameters for launched, _ in watched.tables)

    def bits(value: float) -> int:
        return int.from_bytes(struct.pack("<f", value), "little")

    assert normal[1:] == (10_000, 1, bits(-1.5), bits(2.0), 0, 0)
    assert even[1:] == (20, 0, bits(0.0), bits(float("inf")), 0, 0)
    assert dice[1:] == (10_000, 2**64 - 3, 7, 0, 0)


def test_a_card_may_lack_a_dtype() -> None:
    with supported():
        kernels = {name: kernel for name, kernel in support_kernels().items() if name != "fill_bfloat16"}
        with pytest.raises(ToolMissing, match="no bfloat16"):
            DeviceKernels(kernels).fill_content(5, [ContentJob(256, NORMAL, 1)])


def test_poison_goes_as_far_as_the_largest_range(watched: Watched) -> None:
    watched.support.poison(5, [(4096, 20_000), (0, 0), (256, 5)])
    ((launched, table),) = watched.tables
    assert (launched.grid, table) == ((3, 2, 1), [256, 5, 4096, 20_000])


def test_memory_of_one_size_is_added_up_together(watched: Watched) -> None:
    watched.support.sum_up(5, [(4096, 40_000, 8), (0, 0, 8), (256, 5, 16), (65536, 40_000, 24)], 99)
    (large, of_large), (small, of_small) = watched.tables
    assert (large.grid, of_large) == ((3, 2, 1), [4096, 40_000, 8, 65536, 40_000, 24])
    assert (small.grid, small.parameters[1], of_small) == ((1, 1, 1), 99, [256, 5, 16])


def test_nothing_to_do_is_no_launch(watched: Watched) -> None:
    watched.support.poison(5, [(256, 0)])
    watched.support.sum_up(5, [(256, 0, 8)], 1)
    watched.support.fill_content(5, [])
    watched.support.zones_fill(5, 0, [(3, 0)], 1)
    assert watched.tables == []
    assert watched.support.zones_count(5, 0, [], 1) == 0


def test_long_tables_are_cut(watched: Watched) -> None:
    watched.support.poison(5, [(256 * index, index % 7 + 1) for index in range(2500)])
    assert [launched.grid[1] for launched, _ in watched.tables] == [1024, 1024, 452]
    rows = [word for _, table in watched.tables for word in table[::2]]
    assert sorted(rows) == [256 * index for index in range(2500)]


def test_zones_have_their_address_and_their_offset(watched: Watched) -> None:
    watched.support.zones_fill(5, 10_000, [(300, 1025), (7, 9)], 99)
    ((launched, table),) = watched.tables
    assert (launched.grid, launched.parameters[1]) == ((2, 2, 1), 99)
    assert table == [10_007, 7, 9, 10_300, 300, 1025]


def test_damage_is_read_from_a_counter_that_starts_at_zero(watched: Watched) -> None:
    def damage(launched: Launched) -> None:
        ctypes.c_uint64.from_address(launched.parameters[2]).value += 40

    watched.paper.deeds["count_zones"] = damage
    zones = [(4096 * index, 8) for index in range(1500)]
    assert watched.support.zones_count(5, 0, zones, 99) == 80
    assert watched.support.zones_count(5, 0, zones[:1], 99) == 40


def test_what_is_not_poisoned_is_counted_in_words(watched: Watched) -> None:
    def differ(launched: Launched) -> None:
        watched._look(launched)
        ctypes.c_uint64.from_address(launched.parameters[1]).value += 5 * 2**32

    watched.paper.deeds["count_unpoisoned"] = differ
    assert watched.support.count_unpoisoned(5, [(4096, 17 * 2**30), (512, 0), (256, 8)]) == 5 * 2**32
    ((launched, table),) = watched.tables
    assert (launched.grid, table) == ((17 * 2**30 // 8192, 2, 1), [256, 1, 4096, 17 * 2**27])
    assert watched.support.count_unpoisoned(5, []) == 0


def test_twice_the_cache_is_flushed(watched: Watched) -> None:
    watched.support.flush(5)
    launched = watched.paper.launched[-1]
    assert (launched.does, launched.grid) == ("flush", (2 * 65536 // (4 * 4096), 1, 1))


def test_a_delay_is_passed_in_nanoseconds(watched: Watched) -> None:
    def spend(launched: Launched) -> None:
        (ctypes.c_int64 * 3).from_address(launched.parameters[1])[:] = [99_000, 50_000, launched.parameters[0]]

    assert watched.support.delays(2) == (ClockReading(0, 0), ClockReading(0, 0))
    watched.paper.deeds["delay"] = spend
    watched.support.delay(5, 12.3456, MAX_DELAYS - 1)
    assert watched.paper.launched[-1].parameters[0] == 12_346
    assert watched.support.delays(MAX_DELAYS)[-2:] == (ClockReading(0, 0), ClockReading(pytest.approx(1980), 12_346))
    watched.support.poison(5, [(256 * place, 16) for place in range(1, 1025)])
    watched.support.count_unpoisoned(5, [])
    assert watched.support.delays(MAX_DELAYS)[-1].ended_ns == 12_346, "tables and counters lie elsewhere"
