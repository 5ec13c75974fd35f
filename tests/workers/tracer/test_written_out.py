"""Operations that are written out: equal to PyTorch's, and total."""

import pytest
import torch

from workers.tracer.written_out import WRITTEN_OUT, by_torch

REPEAT = torch.ops.aten.repeat_interleave.Tensor


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("counts", [[3, 0, 0, 2, 1], [0, 6], [6, 0], [1] * 6])
def test_segments_repeat_as_pytorch_repeats_them(counts: list[int], dtype: torch.dtype) -> None:
    repeats = torch.tensor(counts, dtype=dtype)
    found = WRITTEN_OUT[REPEAT](repeats, output_size=6)
    assert found.dtype == dtype and torch.equal(found, REPEAT(repeats, output_size=6))


def test_counts_that_do_not_add_up_raise_nothing() -> None:
    assert WRITTEN_OUT[REPEAT](torch.tensor([1, 1]), output_size=4).tolist() == [0, 1, 1, 1]
    assert WRITTEN_OUT[REPEAT](torch.tensor([1, 1])) is NotImplemented


def test_of_equal_values_the_first_come_first() -> None:
    values = torch.tensor([[1.0, 3.0, torch.nan, 3.0], [2.0, 2.0, 2.0, 2.0]])
    found, places = WRITTEN_OUT[torch.ops.aten.topk.default](values, 3)
    assert places.tolist() == [[2, 1, 3], [0, 1, 2]] and found[0, 1:].tolist() == [3.0, 3.0]
    assert WRITTEN_OUT[torch.ops.aten.topk.default](values, 2, 1, False)[1].tolist() == [[0, 1], [0, 1]]
    assert WRITTEN_OUT[torch.ops.aten.sort.default](values)[1].tolist() == [[0, 1, 3, 2], [0, 1, 2, 3]]


ATEN = torch.ops.aten
GENERATOR = torch.Generator().manual_seed(0)
X, Y = (torch.randn(5, 4, generator=GENERATOR) for _ in range(2))


@pytest.mark.parametrize(
    ("operation", "args", "kwargs"),
    [
        (ATEN._euclidean_dist.default, (X, Y), {}),
        (ATEN.kthvalue.default, (X, 2), {}),
        (ATEN.kthvalue.default, (X, 3, 0, True), {}),
        (ATEN.hann_window.default, (16,), {}),
        (ATEN.hann_window.periodic, (16, False), {}),
        (ATEN.hamming_window.default, (9,), {"dtype": torch.float64}),
        (ATEN.blackman_window.periodic, (9, False), {}),
        (ATEN._weight_norm_interface.default, (X, Y[:, :1].contiguous()), {}),
        (ATEN._foreach_mul.Scalar, ([X, Y], 2.0), {}),
        (ATEN._foreach_add.List, ([X, Y], [Y, X]), {"alpha": 0.5}),
        (ATEN._foreach_addcmul.Scalar, ([X], [Y], [X], 0.5), {}),
        (ATEN._foreach_addcdiv.ScalarList, ([X, Y], [Y, X], [X, Y], [0.5, 2.0]), {}),
        (ATEN._foreach_norm.Scalar, ([X, Y],), {}),
        (ATEN._foreach_maximum.Scalar, ([X], 0.25), {}),
        (ATEN._foreach_sqrt.default, ([X.abs(), Y.abs()],), {}),
        (ATEN._foreach_lerp.Scalar, ([X], [Y], 0.1), {}),
        (ATEN._foreach_mul.Tensor, ([X, Y], torch.tensor(3.0)), {}),
    ],
)
def test_operations_compute_as_pytorch_computes_them(operation, args: tuple, kwargs: dict) -> None:
    expected, found = operation(*args, **kwargs), WRITTEN_OUT[operation](*args, **kwargs)
    pairs = [(expected, found)] if isinstance(expected, torch.Tensor) else zip(expected, found, strict=True)
    for right, got in pairs:
        assert got.dtype == right.dtype and torch.allclose(got, right, atol=1e-5)


@pytest.mark.parametrize(
    ("operation", "args"),
    [
        (ATEN._foreach_mul_.Scalar, (2.0,)),
        (ATEN._foreach_add_.List, ([Y],)),
        (ATEN._foreach_addcdiv_.Scalar, ([Y], [X.exp()], 0.5)),
        (ATEN._foreach_zero_.default, ()),
        (ATEN._foreach_copy_.default, ([Y],)),
    ],
)
def test_lists_are_changed_in_place(operation, args: tuple) -> None:
    expected, found = X.clone(), X.clone()
    operation([expected], *args)
    assert WRITTEN_OUT[operation]([found], *args) is None and torch.allclose(found, expected)


def test_pytorch_s_own_definitions_are_taken_but_for_random_numbers() -> None:
    assert torch.equal(by_torch(ATEN.trace.default)(X[:4]), X[:4].trace())
    assert torch.equal(by_torch(ATEN.reshape.default)(X, (4, 5)), X.reshape(4, 5))
    assert by_torch(ATEN.randn_like.default) is None and by_torch(ATEN._fft_r2c.default) is None
