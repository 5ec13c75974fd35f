"""The list of problems and its lot: drawn once, the same each time, of every level."""

from benchmarks.kernelbench_lot import DRAWN, LOT, draw, read_list


def test_the_committed_list_is_whole_and_its_lot_is_the_one_that_the_seed_draws() -> None:
    commit, listed = read_list(LOT)
    assert len(commit) == 40 and len(listed) == len({each.key for each in listed}) == 250
    assert draw([each.key for each in listed]) == listed
    for level, count in DRAWN.items():
        assert sum(each.drawn for each in listed if each.level == level) == count


def test_a_level_s_lot_does_not_depend_on_other_levels() -> None:
    keys = [each.key for each in read_list(LOT)[1]]
    alone = draw([key for key in keys if key.startswith("level3/")])
    assert alone == [each for each in draw(keys) if each.level == "level3"]
