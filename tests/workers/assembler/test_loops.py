from workers.assembler.loops import LoopFlow, innermost


def test_a_text_that_never_jumps_back_has_no_loops() -> None:
    assert innermost([], [1, 2, 3]) == []


def test_of_nested_loops_the_inner_one_counts() -> None:
    assert innermost([(0, 20), (5, 10), (12, 18)], [6, 13]) == [range(5, 11), range(12, 19)]


def test_loops_that_access_nothing_are_none() -> None:
    assert innermost([(0, 20), (5, 6)], [10]) == [range(21)]
    assert innermost([(5, 6)], [10]) == []


def test_several_jumps_to_one_label_are_one_loop() -> None:
    assert innermost([(3, 9), (3, 6)], [4]) == [range(3, 10)]


LOAD, STORE, OTHER = "load_global", "store_global", "float"


def test_stores_of_every_turn_are_part_of_it() -> None:
    assert LoopFlow({3: 0}, ()).turns([OTHER, LOAD, STORE, OTHER, STORE]) == [0, 1, 2, 3]


def test_what_leads_to_stores_of_some_turns_only_is_no_part_of_them() -> None:
    flow = LoopFlow({2: 6, 5: 0, 6: 0}, {5})
    assert flow.turns([LOAD, OTHER, OTHER, OTHER, STORE, OTHER, OTHER]) == [0, 1, 2, 6]
    assert LoopFlow({2: 5, 5: 0}, ()).turns([LOAD, OTHER, OTHER, STORE, OTHER, OTHER]) == [0, 1, 2, 5]


def test_a_wait_on_the_way_to_such_a_store_is_none_either() -> None:
    flow = LoopFlow({2: 6, 3: 3, 6: 0}, ())
    assert flow.turns([OTHER, LOAD, OTHER, OTHER, STORE, OTHER, OTHER]) == [0, 1, 2, 6]


def test_a_loop_that_only_loads_where_it_stores_is_passed_as_a_whole() -> None:
    assert LoopFlow({0: 4, 4: 0}, ()).turns([OTHER, LOAD, STORE, OTHER, OTHER]) == [0, 1, 2, 3, 4]
    assert LoopFlow({2: 0}, ()).turns([STORE, LOAD, OTHER]) == [0, 1, 2]
    assert LoopFlow({2: 0}, ()).turns([OTHER, OTHER, OTHER]) == []
