"""Which sizes may change is found by trying."""

from collections.abc import Mapping

from workers.kernelbench.extents import Place, find_dimensions, find_ranges

PRODUCT = [(1024, 4096), (4096, 4096)]


def product_works(sizes: Mapping[Place, int]) -> bool:
    """x[M, K] @ w[K, N]: only the inner sizes must agree."""
    return sizes.get((0, 1), 4096) == sizes.get((1, 0), 4096)


def test_equal_sizes_are_one_dimension_where_the_module_takes_it() -> None:
    assert find_dimensions(PRODUCT, product_works) == (((0, 0),), ((0, 1), (1, 0), (1, 1)))


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
