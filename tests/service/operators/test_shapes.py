import math

import pytest

from service.operators.catalogue import load_catalogue, parse_operator
from service.operators.shapes import (
    HELD_OUT_BYTES,
    INTERPRETED_ELEMENTS,
    INTERPRETED_ROWS,
    INTERPRETED_VOLUME,
    ROOMY_ELEMENTS,
    all_shapes,
    boundary_shapes,
    end_shapes,
    far_shape,
    held_out_shapes,
    random_shapes,
)
from workers.protocol import FAR, ShapeRole

CATALOGUE = load_catalogue()


def operator(ranges, benchmark=({"M": 64, "N": 512},), shape=("M", "N")):
    return parse_operator(
        {
            "name": "double",
            "entry": "double",
            "reference": "def double(x):\n    return x + x\n",
            "inputs": [{"name": "x", "shape": list(shape), "dtype": "float32"}],
            "outputs": [{"name": "y", "dtype": "float32"}],
            "shapes": list(benchmark),
            "ranges": ranges,
        }
    )


WIDE = operator({"M": [1, 8192], "N": [1, 65536]})


def dims(shapes):
    return [tuple(shape.dims.values()) for shape in shapes]


def is_interpretable(item, shape):
    sizes = [item.input_shape(tensor, shape.dims) for tensor in item.inputs]
    fixed = max(math.prod(size for size in tensor.shape if isinstance(size, int)) for tensor in item.inputs)
    return (
        sum(map(math.prod, sizes)) <= INTERPRETED_ELEMENTS
        and max(math.prod(size[:-1]) for size in sizes) <= INTERPRETED_ROWS
        and math.prod(shape.dims[name] for name in item.extents) * fixed <= INTERPRETED_VOLUME
    )


def fixed_sizes(item):
    """Combinations of sizes without a range, among the benchmark shapes."""
    fixed = [name for name in item.dimensions if name not in item.ranges]
    return {tuple(shape.dims[name] for name in fixed) for shape in item.shapes}, fixed


def fixed_sizes_of(shapes, fixed):
    return {tuple(shape.dims[name] for name in fixed) for shape in shapes}


def test_a_window_is_shorter_than_the_rows_and_longer_once():
    item = CATALOGUE["sliding_window_attention"]
    assert item.dimensions == (*item.extents, "window")
    pairs = [(shape.dims["T"], shape.dims["window"]) for shape in boundary_shapes(item)]
    assert sum(1 < window < rows for rows, window in pairs) >= 5
    assert sum(window > rows for rows, window in pairs) == 1
    assert all(lies_in_ranges(item, shape) for shape in (*held_out_shapes(item, 1), *boundary_shapes(item)))


def lies_in_ranges(item, shape):
    return all(low <= shape.dims[name] <= high for name, (low, high) in item.ranges.items())


@pytest.mark.parametrize("name", CATALOGUE)
def test_boundary_shapes_are_few_small_and_in_the_ranges(name):
    item = CATALOGUE[name]
    shapes = boundary_shapes(item)
    combinations, fixed = fixed_sizes(item)
    assert 5 <= len(shapes) <= 5 + len(combinations)
    assert all(lies_in_ranges(item, shape) for shape in shapes)
    larger = [shape for shape in shapes if not is_interpretable(item, shape)]
    assert len(larger) <= len(combinations)
    sizes = [[item.input_shape(tensor, shape.dims) for tensor in item.given] for shape in larger]
    assert all(sum(map(math.prod, each)) <= ROOMY_ELEMENTS for each in sizes)
    assert fixed_sizes_of(shapes, fixed) == combinations
    assert {shape.role for shape in shapes} == {ShapeRole.BOUNDARY}


def test_boundary_shapes_of_two_wide_ranges():
    assert dims(boundary_shapes(WIDE)) == [(1, 1), (149, 5), (17, 129), (64, 128), (140, 140), (3, 8191)]


def test_the_cheapest_boundary_shape_is_the_smallest_and_leads():
    for item in CATALOGUE.values():
        shapes = boundary_shapes(item)
        costs = [item.input_bytes(shape.dims) for shape in shapes]
        assert costs == sorted(costs)
        assert {name: shapes[0].dims[name] for name in item.ranges} == {
            name: low for name, (low, _) in item.ranges.items()
        }


TWO_WIDTHS = operator({"M": [1, 64]}, benchmark=({"M": 64, "N": 512}, {"M": 32, "N": 512}, {"M": 64, "N": 96}))


def test_two_of_everything_counts_elements_of_fixed_axes_and_is_cut_to_size():
    item = operator({"M": [1, 8192], "N": [1, 8192]}, shape=("M", "N", 64))
    assert (140, 2) in dims(boundary_shapes(item))
    item = operator({"M": [1, 8192], "N": [1, 8192]}, shape=("M", "N", 256, 16))
    assert (2, 3) in dims(boundary_shapes(item)), "four axes count what is alike"
    item = operator({"L": [1, 64], "M": [1, 8192], "N": [64, 8192]}, ({"L": 8, "M": 8, "N": 64},), ("L", "M", "N"))
    assert (17, 70, 140) in dims(boundary_shapes(item)), "as many rows as there may be"


def test_every_size_without_a_range_that_a_benchmark_has_is_met_at_a_boundary_shape():
    assert dims(boundary_shapes(TWO_WIDTHS)) == [(1, 512), (5, 512), (64, 96), (64, 512)]


def test_held_out_shapes_have_any_size_without_a_range_that_a_benchmark_has():
    drawn = [shape.dims["N"] for seed in range(40) for shape in held_out_shapes(TWO_WIDTHS, seed)]
    assert set(drawn) == {512, 96} and drawn.count(96) > 10


def test_sizes_without_a_range_stay_together():
    shapes = ({"M": 8, "N": 64, "O": 2}, {"M": 8, "N": 128, "O": 3})
    item = operator({"M": [1, 64]}, benchmark=shapes, shape=("M", "N", "O"))
    found = [*boundary_shapes(item), *(shape for seed in range(9) for shape in held_out_shapes(item, seed))]
    assert {(shape.dims["N"], shape.dims["O"]) for shape in found} == {(64, 2), (128, 3)}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", {"M": 140, "K": 140, "N": 140}),
        ("attention", {"B": 2, "H": 3, "T": 140, "D": 128}),
        ("sliding_window_attention", {"B": 2, "H": 3, "T": 140, "window": 70, "D": 128}),
        ("gated_linear_attention", {"B": 2, "H": 3, "T": 70, "V": 140, "K": 128}),
        ("depthwise_conv_large", {"B": 2, "C": 3, "H": 17, "W": 64, "K": 31}),
        ("depthwise_conv_large", {"B": 2, "C": 3, "H": 17, "W": 64, "K": 29}),
        ("simplicial_attention", {"B": 2, "H": 3, "T": 140, "W1": 70, "W2": 3, "D": 64}),
        ("ternary_matmul", {"M": 140, "J": 35, "N": 140}),
        ("w4a16_matmul", {"M": 140, "G": 2, "N": 140}),
        ("lm_head_sparse", {"B": 17, "T": 70, "K": 140, "V": 140}),
        ("monarch_matmul", {"M": 140, "K": 2, "P": 140, "Q": 140, "S": 140}),
        ("moe_swiglu", {"E": 2, "I": 140, "D": 140, "M": 140, "K": 8}),
    ],
)
def test_two_of_everything(name, sizes):
    assert sizes in [shape.dims for shape in boundary_shapes(CATALOGUE[name])]


def test_narrow_ranges_give_fewer_shapes():
    assert dims(boundary_shapes(operator({"M": [4, 5], "N": [16, 16]}))) == [(4, 16), (5, 16)]


def test_without_ranges_there_are_benchmark_shapes_only():
    item = operator({})
    assert boundary_shapes(item) == held_out_shapes(item, 0) == ()
    assert dims(all_shapes(item, 0)) == [(64, 512)]


def test_a_space_too_large_for_the_interpreter_keeps_its_smallest_shape():
    item = operator({"M": [1024, 8192], "N": [1024, 65536]})
    assert dims(boundary_shapes(item)) == [(1024, 1024)]
    assert all(lies_in_ranges(item, shape) for shape in held_out_shapes(item, 0))


def test_one_dimension():
    item = operator({"N": [1, 2**24]}, benchmark=({"N": 2**20},), shape=("N",))
    assert dims(boundary_shapes(item)) == [(1,), (5,), (128,), (129,), (140,), (8191,)]


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_held_out_shapes_are_drawn_from_the_seed_alone(name, seed):
    item = CATALOGUE[name]
    small, large = held_out_shapes(item, seed)
    assert held_out_shapes(item, seed) == (small, large)
    assert is_interpretable(item, small)
    assert item.input_bytes(large.dims) <= HELD_OUT_BYTES
    assert lies_in_ranges(item, small) and lies_in_ranges(item, large)
    assert small.role == large.role == ShapeRole.HELD_OUT


def test_another_seed_draws_other_shapes():
    assert len({tuple(dims(held_out_shapes(WIDE, seed))) for seed in range(50)}) > 45


def test_held_out_shapes_reach_all_of_a_range():
    drawn = [shape.dims["N"] for seed in range(300) for shape in held_out_shapes(WIDE, seed)]
    for low in (1, 16, 256, 4096, 32768):
        assert any(low <= size <= 2 * low for size in drawn)
    small = sum(size < 256 for size in drawn)
    assert 0.4 * len(drawn) < small < 0.8 * len(drawn)


def test_held_out_shapes_are_cut_to_size():
    item = operator({"M": [1, 2**20], "N": [2**15, 2**16]})
    for seed in range(20):
        small, large = held_out_shapes(item, seed)
        assert is_interpretable(item, small)
        assert item.input_bytes(large.dims) <= HELD_OUT_BYTES


def test_held_out_shapes_are_new():
    item = operator({"M": [1, 2], "N": [1, 2]}, benchmark=({"M": 2, "N": 1},))
    for seed in range(20):
        shapes = all_shapes(item, seed)
        assert dims(shapes)[:3] == [(1, 1), (2, 2), (2, 1)]
        assert dims(shapes)[3:] == [(1, 2)]


@pytest.mark.parametrize("name", CATALOGUE)
def test_all_shapes_come_in_tracing_order_without_duplicates(name):
    shapes = all_shapes(CATALOGUE[name], 5)
    roles = [shape.role for shape in shapes]
    assert roles == sorted(roles, key=[ShapeRole.BOUNDARY, ShapeRole.BENCHMARK, ShapeRole.HELD_OUT].index)
    assert len({shape.key for shape in shapes}) == len(shapes)
    benchmark = [shape for shape in shapes if shape.role is ShapeRole.BENCHMARK]
    assert [shape.dims for shape in benchmark] == [item.dims for item in CATALOGUE[name].shapes]


def test_a_boundary_shape_that_is_timed_stays_a_benchmark_shape():
    item = operator({"M": [1, 8192], "N": [1, 8192]}, benchmark=({"M": 1, "N": 1, "weight": 3.0},))
    shapes = {shape.key: shape for shape in all_shapes(item, 0)}
    assert shapes["M=1,N=1"].role is ShapeRole.BENCHMARK
    assert shapes["M=1,N=1"].weight == 3.0


def test_random_shapes_are_new_alike_for_a_seed_and_in_range():
    known = [shape.key for shape in all_shapes(WIDE, 0)]
    found = random_shapes(WIDE, 5, 200, known, small=False)
    assert 150 < len(found) == len({shape.key for shape in found})
    assert found == random_shapes(WIDE, 5, 200, known, small=False) != random_shapes(WIDE, 6, 200, known, small=False)
    assert {shape.role for shape in found} == {ShapeRole.RANDOM} and not {shape.key for shape in found} & set(known)
    assert all(WIDE.input_bytes(shape.dims) <= HELD_OUT_BYTES for shape in found)
    small = random_shapes(WIDE, 5, 20, known, small=True)
    assert small and all(math.prod(shape.dims.values()) <= INTERPRETED_ELEMENTS for shape in small)
    assert random_shapes(operator({}), 5, 200, (), small=False) == []
    assert len(random_shapes(operator({"M": [1, 2]}), 5, 200, (), small=False)) == 2


def least_beyond(item):
    """The fewest elements of the one input that are more than 2^31, by trying every number of rows."""
    (low_m, high_m), (low_n, high_n) = item.ranges["M"], item.ranges["N"]
    rows = ((m, max(low_n, FAR // m + 1)) for m in range(low_m, high_m + 1))
    return min(m * n for m, n in rows if n <= high_n)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ({"M": [1, 8192], "N": [1, 524288]}, (8192, 262145)),
        ({"M": [1, 65536], "N": [1, 65537]}, (32768, 65537)),
        ({"M": [4, 10**7], "N": [512, 1024]}, (2**22 + 1, 512)),
    ],
)
def test_the_far_shape_is_the_smallest_with_an_input_of_more_than_2_to_the_31_elements(ranges, expected):
    item = operator(ranges)
    found = far_shape(item)
    assert (found.dims["M"], found.dims["N"]) == expected and found.role is ShapeRole.RANDOM
    assert item.is_far(found.dims) and found == far_shape(item)
    # Pairs of sizes that are at no end of their ranges come nearer by a thousandth at most.
    assert math.prod(expected) <= 1.001 * least_beyond(item)


@pytest.mark.parametrize("ranges", [{}, {"M": [1, 32768]}, {"M": [1, 32768], "N": [1, 65536]}])
def test_ranges_that_do_not_reach_so_far_have_no_far_shape(ranges):
    assert far_shape(operator(ranges)) is None


def test_sizes_without_a_range_count_with_those_of_the_benchmark_that_takes_least():
    sizes = ({"M": 64, "N": 512}, {"M": 64, "N": 2**20})
    assert far_shape(operator({"M": [1, 4096]}, sizes)).dims == {"M": 2049, "N": 2**20}
    square = operator({"N": [1, 10**6]}, ({"N": 64},), ("N", "N"))
    assert far_shape(square).dims == {"N": 46341}


def test_some_operators_of_the_catalogue_reach_so_far():
    found = {name: shape for name, shape in ((each.name, far_shape(each)) for each in CATALOGUE.values()) if shape}
    assert {"decode_attention", "paged_decode", "qk_norm_rope"} <= found.keys()
    for name, shape in found.items():
        item = CATALOGUE[name]
        assert item.is_far(shape.dims) and item.input_bytes(shape.dims) < 20e9
        assert all(low <= shape.dims[size] <= high for size, (low, high) in item.ranges.items())


def test_the_ends_of_ranges_are_shapes_of_every_candidate() -> None:
    softmax = load_catalogue()["softmax"]
    assert [shape.dims for shape in end_shapes(softmax)] == [{"M": 1, "N": 65536}, {"M": 32768, "N": 1}]
    matmul = load_catalogue()["matmul"]
    assert {tuple(shape.dims.values()) for shape in end_shapes(matmul)} == {(1, 16384, 1), (1, 1, 16384), (8192, 1, 1)}
    for operator in load_catalogue().values():
        shapes = end_shapes(operator)
        assert len(shapes) <= 5 and {shape.key for shape in shapes} <= {shape.key for shape in all_shapes(operator, 1)}


def test_each_dimension_that_may_be_zero_is_zero_once():
    item = operator({"M": [0, 8192], "N": [0, 512]})
    empty = [shape.dims for shape in boundary_shapes(item) if 0 in shape.dims.values()]
    assert empty == [{"M": 0, "N": 5}, {"M": 2, "N": 0}]
    assert all(0 not in shape.dims.values() for shape in end_shapes(item))
    drawn = random_shapes(operator({"M": [0, 3]}), 1, 9, set(), small=True)
    assert sorted(shape.dims["M"] for shape in drawn) == [0, 1, 2, 3]


def optional(count, ranges, shapes=({"M": 64, "N": 512},)):
    names = [f"bias{number}" for number in range(count)]
    inputs = [{"name": "x", "shape": ["M", "N"], "dtype": "float32"}]
    inputs += [{"name": name, "shape": ["N"], "dtype": "float32", "optional": True} for name in names]
    reference = f"def f(x, {', '.join(names)}):\n    return x\n"
    outputs = [{"name": "y", "dtype": "float32"}]
    body = {"name": "f", "entry": "f", "reference": reference, "inputs": inputs, "outputs": outputs}
    return parse_operator({**body, "shapes": list(shapes), "ranges": ranges})


@pytest.mark.parametrize("ranges", [{"M": [0, 8192]}, {}])
def test_every_combination_of_few_optional_inputs_is_judged(ranges):
    item = optional(2, ranges)
    assert item.shapes[0].dims == {"M": 64, "N": 512, "bias0": 1, "bias1": 1}
    given = {(shape.dims["bias0"], shape.dims["bias1"]) for shape in all_shapes(item, 1)}
    assert given == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_of_many_optional_inputs_each_is_judged_alone():
    names = [f"bias{number}" for number in range(5)]
    found = {tuple(shape.dims[name] for name in names) for shape in boundary_shapes(optional(5, {"M": [1, 64]}))}
    assert {sum(each) for each in found} == {0, 1, 4, 5} and len(found) == 12


def test_a_shape_may_be_timed_without_an_optional_input():
    item = optional(1, {"M": [1, 64]}, [{"M": 64, "N": 512, "bias0": 0}])
    assert item.shapes[0].dims["bias0"] == 0
    assert {shape.dims["bias0"] for shape in boundary_shapes(item)} == {0, 1}
