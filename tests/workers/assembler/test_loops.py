from workers.assembler.loops import innermost


def test_a_text_that_never_jumps_back_has_no_loops() -> None:
    assert innermost([], [1, 2, 3]) == []


def test_of_nested_loops_the_inner_one_counts() -> None:
    assert innermost([(0, 20), (5, 10), (12, 18)], [6, 13]) == [range(5, 11), range(12, 19)]


def test_loops_that_access_nothing_are_none() -> None:
    assert innermost([(0, 20), (5, 6)], [10]) == [range(21)]
    assert innermost([(5, 6)], [10]) == []


def test_several_jumps_to_one_label_are_one_loop() -> None:
    assert innermost([(3, 9), (3, 6)], [4]) == [range(3, 10)]
