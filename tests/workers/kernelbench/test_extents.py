"""Which sizes may change is found by trying."""

from collections.abc import Mapping

from workers.kernelbench.extents import Place, SizeNumber, find_dimensions, find_ranges, varied

PRODUCT = [(1024, 4096), (4096, 4096)]


def product_works(sizes: Mapping[Place, int]) -> bool:
    """x[M, K] @ w[K, N]: only the inner sizes must agree."""
    return sizes.get((0, 1), 4096) == sizes.get((1, 0), 4096)


def test_equal_sizes_are_told_apart_by_what_must_change_together() -> None:
    assert find_dimensions(PRODUCT, product_works) == (((0, 0),), ((0, 1), (1, 0)), ((1, 1),))


def test_more_than_two_extents_that_must_agree_are_one_dimension() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        return len({sizes.get((index, 0), 64) for index in range(4)}) == 1

    shapes = [(64,), (64,), (64,), (64,), (64, 3)]
    assert find_dimensions(shapes, works) == (((0, 0), (1, 0), (2, 0), (3, 0)), ((4, 0),))


def test_a_number_of_the_file_is_one_dimension_or_none() -> None:
    width = SizeNumber("width", ((0, 0), (1, 0)))
    assert find_dimensions([(64,), (64,)], lambda sizes: True, [width]) == (((0, 0), (1, 0)),)
    # The module needs a multiple: its parts do not change by themselves either.
    assert find_dimensions([(64,), (64,)], lambda sizes: len(sizes) < 2, [width]) == ()
    # A number without a name may be written twice for one size.
    nameless = [SizeNumber("", ((0, 0),)), SizeNumber("", ((1, 0),))]
    assert find_dimensions([(64,), (64,)], lambda sizes: len(sizes) == 2, nameless) == (((0, 0), (1, 0)),)


def test_a_small_batch_may_change() -> None:
    assert find_dimensions([(4, 3), (4, 3)], lambda sizes: True, leading={(0, 0)}) == (((0, 0),),)


def test_examples_tell_which_sizes_vary() -> None:
    rows = [((8, 64, 32), (64, 32)), ((8, 128, 32), (128, 32)), ((4, 128, 32), (128, 32))]
    assert varied(rows) == (((0, 0),), ((0, 1), (1, 0)))


def test_where_it_does_not_single_places_and_pairs_may_change() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        return product_works(sizes) and sizes.get((1, 1), 4096) % 8 == 0

    assert find_dimensions(PRODUCT, works) == (((0, 0),), ((0, 1), (1, 0)))


def test_small_sizes_and_sizes_that_must_not_change_are_no_dimensions() -> None:
    assert find_dimensions([(3, 15)], lambda sizes: True) == ()
    assert find_dimensions([(64,), ()], lambda sizes: False) == ()


def test_a_range_begins_where_the_module_begins_to_work() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        return sizes.get((0, 0), 64) >= 3

    assert find_ranges({"H": ((0, 0),), "W": ((0, 1),)}, {"H": 64, "W": 100}, works) == {"H": (3, 64), "W": (1, 100)}


def test_smallest_sizes_rise_until_they_work_together() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        return sizes.get((0, 0), 64) * sizes.get((0, 1), 64) >= 4

    assert find_ranges({"H": ((0, 0),), "W": ((0, 1),)}, {"H": 64, "W": 64}, works) == {"H": (2, 64), "W": (2, 64)}


def test_a_dimension_with_gaps_keeps_its_size() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        return sizes.get((0, 0), 64) % 8 == 0

    dimensions: dict[str, tuple[Place, ...]] = {"C": ((0, 0),), "W": ((0, 1),)}
    assert find_ranges(dimensions, {"C": 64, "W": 64}, works) == {"W": (1, 64)}


def test_two_is_not_changed_to_one_which_broadcasts() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        """x[B, N] + y[B, N] with B = 2."""
        return len({sizes.get((index, 0), 2) for index in range(2)} - {1}) < 2

    leading = {(0, 0), (1, 0)}
    assert find_dimensions([(2, 3), (2, 3)], works, leading=leading) == (((0, 0), (1, 0)),)


def test_extents_of_arguments_are_one_dimension_though_a_weight_has_their_size() -> None:
    def works(sizes: Mapping[Place, int]) -> bool:
        return (3, 0) not in sizes and len({sizes.get((index, 0), 64) for index in range(3)}) == 1

    shapes = [(64,), (64,), (64,), (64,)]
    assert find_dimensions(shapes, works, given={0, 1, 2}) == (((0, 0), (1, 0), (2, 0)),)
    assert find_dimensions(shapes, works) == ()
