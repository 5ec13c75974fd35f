"""Pages of the profiler in all known forms: figures under our names, and nothing that a page does not say."""

import pytest

from tests.workers.profiler.pages import BOTH_SOURCES, RAW, REFUSED, SOURCE
from workers.profiler.counters import CountedInstruction, UnreadablePage, number, parse_raw, parse_source


def test_only_launches_of_ours_are_read_in_order_in_our_units() -> None:
    first, second = parse_raw(RAW)
    assert first.counters == {
        "time_us": 47.104,
        "dram_read_bytes": 67_108_992.0,
        "dram_written_bytes": 66_904_192.0,
        "dram_percent": 89.25,
        "active_warps_percent": 93.5,
        "instructions": 12_345_678.0,
    }
    assert (second.counters["time_us"], second.counters["l2_hit_percent"]) == (2.048, 50.0)


def test_stalls_are_shares_of_waiting_samples_the_largest_first() -> None:
    first, second = parse_raw(RAW)
    assert list(first.stalls.items()) == [("long_scoreboard", 0.75), ("barrier", 0.25)]
    assert second.stalls == {}


def test_an_older_release_has_the_same_figures_under_other_names() -> None:
    text = (
        '"ID","Kernel Name","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum",'
        '"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",'
        '"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",'
        '"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"\n'
        '"","","%","usecond","","",""\n"0","kernel","40.5","12.5","6","1","2"\n'
    )
    (launch,) = parse_raw(text)
    assert launch.counters == {"time_us": 12.5, "dram_percent": 40.5}
    assert launch.stalls == {"long_scoreboard": 0.75, "wait": 0.25}


def test_instructions_are_read_per_launch_with_their_most_frequent_stall() -> None:
    first, second = parse_source(SOURCE)
    assert first == [
        CountedInstruction("LDC R1, c[0x0][0x28]", 2, 8192, "long_scoreboard"),
        CountedInstruction("@P0   LDG.E.128 R4, desc[UR4][R2.64]", 1700, 8192, "long_scoreboard"),
        CountedInstruction("BAR.SYNC.DEFER_BLOCKING 0x0", 298, 8192, "barrier"),
        CountedInstruction("BRA 0x7f2a9d2f0f30", 0, 0, ""),
    ]
    assert second == [CountedInstruction("EXIT", 0, 640, "")]


def test_rows_of_source_lines_are_no_instructions() -> None:
    assert parse_source(BOTH_SOURCES) == [[CountedInstruction("MUFU.EX2 R3, R4", 12, 64, "wait")]]


@pytest.mark.parametrize("text", ["", REFUSED, '"ID","Kernel Name"\n', '"Source","Line"\n"a","1"\n', "\x00,\x00\n"])
def test_what_is_no_page_is_said_to_be_none(text: str) -> None:
    for parse in (parse_raw, parse_source):
        with pytest.raises(UnreadablePage):
            parse(text)


@pytest.mark.parametrize(("text", "value"), [("1,234.5", 1234.5), ("n/a", None), ("", None), ("(!) n/a", None)])
def test_a_missing_figure_is_not_zero(text: str, value: float | None) -> None:
    assert number(text) == value
