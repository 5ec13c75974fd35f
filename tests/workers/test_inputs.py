"""Input draws: what each is there to show, and that the spec's own distributions hold."""

import pytest
import torch

from workers.inputs import DRAWS, ENDS, EXTREME, FAINT, MINUTE, NEAR, PLANTED, draw, draw_tiles, takes_specials
from workers.protocol import Operator, Shape

SHAPE = Shape(dims={"M": 64, "N": 48})


def operator(**extra) -> Operator:
    x = {"name": "x", "shape": ("M", "N"), "dtype": "bfloat16", **extra}
    weight = {"name": "weight", "shape": ("N",), "dtype": "bfloat16"}
    return Operator(
        name="op",
        entry="op",
        reference="def op(): ...",
        inputs=(x, weight),
        outputs=({"name": "y", "dtype": "bfloat16"},),
        shapes=({"dims": {"M": 64, "N": 48}},),
    )


def x_of(name: str, seed: int = 1, **extra) -> torch.Tensor:
    return draw(operator(**extra), SHAPE, name, seed)[0]


@pytest.mark.parametrize("name", DRAWS)
def test_sizes_dtypes_and_seeds(name):
    first, again, other = (draw(operator(), SHAPE, name, seed) for seed in (b"a", b"a", b"b"))
    assert [tensor.shape for tensor in first] == [(64, 48), (48,)]
    assert all(tensor.dtype == torch.bfloat16 and tensor.is_contiguous() for tensor in first)
    assert all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0].nan_to_num(), other[0].nan_to_num())


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dims", [{"M": 1, "N": 1}, {"M": 1, "N": 7}, {"M": 3, "N": 1}])
def test_the_smallest_shapes_can_be_drawn(name, dims):
    x, weight = draw(operator(), Shape(dims=dims), name, 0)
    assert x.shape == (dims["M"], dims["N"])
    assert weight.shape == (dims["N"],)


def test_draws_of_different_shapes_and_inputs_are_independent():
    x, weight = draw(operator(), Shape(dims={"M": 1, "N": 48}), "normal", 1)
    assert not torch.equal(x[0], weight)
    assert not torch.equal(x[0], x_of("normal")[0])


def test_heavy_rows_differ_by_orders_of_magnitude():
    scale = x_of("heavy").float().std(1)
    assert scale.max() / scale.min() > 1e3


def test_shifted_has_a_mean_far_from_zero():
    values = x_of("shifted").float()
    assert 29.5 < values.mean() < 30.5
    assert 0.8 < values.std() < 1.2


def test_structured_holds_every_pattern():
    rows = x_of("structured").float()
    step = rows.diff(dim=1)
    assert (step == 0).all(1).any(), "equal rows"
    assert ((step >= 0).all(1) & (step > 0).any(1)).any(), "ascending rows"
    assert ((step <= 0).all(1) & (step < 0).any(1)).any(), "descending rows"
    assert ((rows != 0).sum(1) == 1).any(), "one-hot rows"
    assert (rows.abs() == EXTREME).all(1).any(), "extreme rows"
    assert ((rows != 0) & (rows.abs() < torch.finfo(torch.bfloat16).tiny)).any(), "denormals"
    assert ((rows[:, ::2] > 0).all(1) & (rows[:, 1::2] < 0).all(1)).any(), "alternating signs"
    scale = rows.abs().mean(1)
    assert ((scale > FAINT / 4) & (scale < FAINT * 4)).any(), "faint rows"
    assert ((scale > MINUTE / 4) & (scale < MINUTE * 4)).any(), "minute rows"
    assert (rows == 0).all(1).sum() == 1, "a row of zeros"


def test_a_row_of_zeros_has_the_same_place_in_all_inputs_that_may_be_zero():
    others = [
        {"name": "small", "shape": ("M", "N"), "dtype": "float8_e4m3fn"},
        {"name": "z", "shape": ("M", 2, "N"), "dtype": "float32"},
        {"name": "above", "shape": ("M", "N"), "dtype": "float32", "low": 0.5},
        {"name": "normal", "shape": ("M", "N"), "dtype": "float32", "distribution": "normal"},
    ]
    of = Operator(**operator().model_dump() | {"inputs": [operator().inputs[0], *others]})
    places = set()
    for seed in range(6):
        x, y, z, above, normal = (tensor.float() for tensor in draw(of, SHAPE, "structured", seed))
        zeros = [(tensor.reshape(-1, 48) == 0).all(1).nonzero().flatten().tolist() for tensor in (x, y, z)]
        assert zeros[0] == zeros[1] and len(zeros[0]) == 1 and zeros[2][0] // 2 == zeros[0][0]
        assert (above >= 0.5).all() and (normal != 0).any(1).all()
        places.add(zeros[0][0])
    assert len(places) > 1


def test_planted_puts_all_three_specials_into_one_input():
    tensors = draw(operator(), SHAPE, "planted", 3)
    counts = [(t.isnan().sum().item(), t.isposinf().sum().item(), t.isneginf().sum().item()) for t in tensors]
    assert sorted(counts) == [(0, 0, 0), (1, 1, 1)]


def test_lone_puts_one_special_into_one_input_each_kind_in_turn():
    kinds = set()
    for seed in range(24):
        tensors = draw(operator(), SHAPE, "lone", seed)
        (special,) = [tensor[~tensor.isfinite()] for tensor in tensors if not tensor.isfinite().all()]
        kinds.add(str(special.item()))
    assert kinds == {"nan", "inf", "-inf"}


@pytest.mark.parametrize("name", PLANTED)
def test_pinned_inputs_take_no_specials(name):
    pinned = operator(low=0.0)
    assert not takes_specials(pinned.inputs[0]) and takes_specials(pinned.inputs[1])
    assert all(draw(pinned, SHAPE, name, seed)[0].isfinite().all() for seed in range(8))


@pytest.mark.parametrize("name", DRAWS)
def test_pinned_distributions_stay_in_their_bounds(name):
    uniform = x_of(name, distribution="uniform", low=0.25, high=0.75).float()
    assert uniform.min() >= 0.25
    assert uniform.max() <= 0.75
    assert x_of(name, distribution="normal").float().abs().max() < 10
    bounded = x_of(name, low=-2.0, high=2.0).float()
    assert bounded.abs().max() <= 2


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (0.5, None), (None, 0.0), (-5.0, -1.0), (2.0, 2.5)])
@pytest.mark.parametrize("name", ["heavy", "shifted"])
def test_values_beyond_a_bound_are_mirrored_there_and_not_cut_off(name, low, high):
    values = x_of(name, dtype="float32", low=low, high=high)
    least, most = low if low is not None else -torch.inf, high if high is not None else torch.inf
    assert values.min() >= least and values.max() <= most
    assert len(values.unique()) > values.numel() / 2
    assert ((values == least) | (values == most)).sum() <= 1


def test_bounds_occur_in_other_draws():
    for name in ("normal", "structured"):
        values = x_of(name, low=-1.0, high=1.0)
        assert (values == -1).any() and (values == 1).any()


def test_mirrored_values_keep_the_small_ones_as_they_are():
    free, bounded = x_of("heavy", dtype="float32"), x_of("heavy", dtype="float32", low=-2.0, high=2.0)
    small = free.abs() <= 2
    assert small.any() and torch.equal(free[small], bounded[small])
    once = (free > 2) & (free < 6)
    assert torch.equal(bounded[once], 2 - (free[once] - 2))


@pytest.mark.parametrize(("low", "high", "mean"), [(-1.0, 1.0, 30 / 33), (0.0, 66.0, 30.0), (-4.0, 1.0, -4 * 30 / 33)])
def test_shifted_is_as_far_from_zero_as_bounds_let_it(low, high, mean):
    values = x_of("shifted", dtype="float32", low=low, high=high)
    assert values.mean().item() == pytest.approx(mean, rel=0.01)
    assert values.std().item() == pytest.approx(abs(mean) / 30, rel=0.1)


def test_shifted_values_of_few_bits_are_not_all_equal():
    assert len(x_of("shifted", dtype="float8_e4m3fn").float().unique()) > 1


@pytest.mark.parametrize("name", DRAWS)
def test_integers_fill_their_half_open_range(name):
    values = x_of(name, dtype="int64", low=0, high="N")
    assert values.dtype == torch.int64
    assert values.min() >= 0
    assert values.max() < 48
    if name == "structured":
        assert (values.min(), values.max()) == (0, 47)
    flags = x_of(name, dtype="bool")
    assert flags.dtype == torch.bool
    assert flags.any()
    assert not flags.all()


def even_operator() -> Operator:
    rate = {"name": "rate", "shape": ("M",), "dtype": "float32", "distribution": "uniform", "low": -16.0, "high": -1.0}
    step = {"name": "step", "shape": ("M", "N"), "dtype": "float32", "distribution": "uniform"}
    choice = {"name": "choice", "shape": ("M", "N"), "dtype": "int64", "high": "M"}
    return Operator(**operator().model_dump() | {"inputs": [rate, step, choice]})


@pytest.mark.parametrize("name", ENDS)
def test_even_inputs_come_near_both_ends_in_every_combination(name):
    rate, step, choice = draw(even_operator(), SHAPE, name, 1)
    fast, long, last = rate < -8.5, step > 0.5, choice > 31
    assert ((rate + 16).abs()[fast] <= 15 * NEAR + 1e-5).all() and ((rate + 1).abs()[~fast] <= 15 * NEAR + 1e-5).all()
    assert (step[~long] <= NEAR).all() and (step[long] >= 1 - NEAR - 1e-6).all()
    assert set(choice.unique().tolist()) == {0, 63}
    for one in (True, False):
        for other in (True, False):
            rows = (fast[:, None] == one) & (long == other)
            assert (rows & last).any() and (rows & ~last).any()


def test_what_is_near_one_end_in_heavy_is_near_the_other_in_shifted():
    heavy, shifted = (draw(even_operator(), SHAPE, name, 1) for name in ENDS)
    for mine, its, middle in zip(heavy, shifted, (-8.5, 0.5, 31), strict=True):
        assert torch.equal(mine > middle, its < middle)
        assert (mine > middle).float().mean() == 0.5


def test_weights_on_both_sides_of_zero_are_on_one_throughout_so_that_their_sums_do_not_cancel():
    """They differ by a third of their mean, so that sums of other weights differ by more than rounding."""
    weights = {"name": "w", "shape": ("M", "N"), "dtype": "float32", "distribution": "uniform"}
    layer = Operator(**operator().model_dump() | {"inputs": [weights | {"low": -0.5, "high": 0.25}]})
    (lower,), (upper,) = (draw(layer, SHAPE, name, 1) for name in ENDS)
    assert -0.5 <= lower.min() < -0.45 < -0.3 < lower.max() <= -0.25
    assert 0.125 <= upper.min() < 0.15 < 0.225 < upper.max() <= 0.25


def test_stretches_near_an_end_are_long():
    rate, _, _ = draw(even_operator(), SHAPE, "heavy", 1)
    assert int((rate > -8.5).int().diff().abs().sum()) == 1, "half of all rows"


def test_single_values_come_near_both_ends_too():
    ends = [draw(even_operator(), Shape(dims={"M": 1, "N": 1}), name, 1)[1].item() for name in ENDS]
    assert ends[0] <= NEAR and ends[1] >= 1 - NEAR


def test_half_precision_stays_finite():
    for name in ("heavy", "shifted", "structured"):
        assert x_of(name, dtype="float16").isfinite().all()
        assert x_of(name, dtype="float8_e5m2").float().isfinite().all()


@pytest.mark.parametrize("name", DRAWS)
def test_float64_can_be_drawn(name):
    assert x_of(name, dtype="float64").dtype == torch.float64


def test_tiles_have_the_values_of_their_inputs_in_as_many_bytes_as_asked():
    of = operator(dtype="int64", low=3, high="N")
    integers, floats = draw_tiles(of, SHAPE, 4096, b"a")
    assert (integers.dtype, integers.shape, floats.dtype, floats.shape) == (
        torch.int64,
        (512,),
        torch.bfloat16,
        (2048,),
    )
    assert integers.min() >= 3 and integers.max() < 48 and floats.float().std() > 0.5
    assert torch.equal(integers, draw_tiles(of, SHAPE, 4096, b"a")[0])
    assert not torch.equal(integers, draw_tiles(of, SHAPE, 4096, b"b")[0])


def test_an_unknown_draw_is_refused():
    with pytest.raises(ValueError, match="known: normal"):
        draw(operator(), SHAPE, "gaussian", 1)


@pytest.mark.parametrize("name", DRAWS)
def test_the_cpu_is_the_device_unless_another_is_named(name):
    for mine, named in zip(
        draw(operator(), SHAPE, name, 1), draw(operator(), SHAPE, name, 1, device=torch.device("cpu")), strict=True
    ):
        assert mine.device == torch.device("cpu")
        assert torch.equal(mine.view(torch.int16), named.view(torch.int16))


def planted(seed: int, size: int) -> torch.Tensor:
    given = {"name": "x", "shape": ("N",), "dtype": "float32"}
    named = {"name": "f", "entry": "f", "reference": "def f(x): ...", "shapes": ({"dims": {"N": size}},)}
    of = Operator(**named, inputs=(given,), outputs=({"name": "y", "dtype": "float32"},))
    return draw(of, Shape(dims={"N": size}), "planted", seed)[0]


def test_what_is_planted_lies_anywhere_and_never_twice_in_one_place():
    from_all = {tuple(torch.isnan(x).nonzero().tolist()[0]) for x in (planted(seed, 7) for seed in range(60))}
    assert len(from_all) == 7
    assert [int((~torch.isfinite(planted(3, size))).sum()) for size in (1, 2, 3, 9)] == [1, 2, 3, 3]


def test_where_gradients_are_judged_only_nan_is_planted():
    values = {
        "name": "f",
        "entry": "f",
        "reference": "def f(x): ...",
        "shapes": ({"dims": {"N": 64}},),
        "backward": True,
    }
    given = {"name": "x", "shape": ("N",), "dtype": "float32"}
    operator = Operator(**values, inputs=(given,), outputs=({"name": "y", "dtype": "float32", "shape": ("N",)},))
    for seed in range(8):
        drawn = draw(operator, Shape(dims={"N": 64}), "planted", seed)
        assert len(drawn) == 2 and sum(int(tensor.isnan().sum()) for tensor in drawn) == 3
        assert not any(tensor.isinf().any() for tensor in drawn)
