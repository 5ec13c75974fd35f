import pytest
import torch

from tests.workers.runner.plans import arena
from workers.protocol import View
from workers.runner.arena import Arena


def view(dtype: str = "float32", offset: int = 0, shape=(2, 3), strides=(3, 1)) -> View:
    return View(buffer=0, offset_bytes=offset, shape=shape, strides=strides, dtype=dtype)


def test_bytes_are_seen_where_they_are() -> None:
    memory = arena(1024)
    memory.tensor(10, 3).fill_(9)
    assert memory.tensor(8, 7).tolist() == [0, 0, 9, 9, 9, 0, 0]
    assert memory.tensor(10, 3).data_ptr() == memory.pointer + 10


@pytest.mark.parametrize(("offset", "size"), [(-1, 4), (0, -1), (1021, 4), (1024, 1)])
def test_bytes_outside_are_not_seen(offset: int, size: int) -> None:
    with pytest.raises(ValueError, match="do not lie in an arena of 1024"):
        arena(1024).tensor(offset, size)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]
)
def test_a_view_is_a_tensor_of_its_dtype(dtype: str) -> None:
    memory = arena(1024)
    tensor = memory.view(view(dtype, offset=16), 256)
    assert (tensor.dtype, tensor.shape, tensor.stride()) == (getattr(torch, dtype), (2, 3), (3, 1))
    assert tensor.data_ptr() == memory.pointer + 272


def test_a_strided_view_skips_what_lies_between() -> None:
    memory = arena(1024)
    memory.view(view(shape=(2, 2), strides=(8, 2)), 512).fill_(1.0)
    seen = memory.tensor(512, 48).view(torch.float32)
    assert seen.tolist() == [1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0]


def test_an_empty_view_may_lie_at_the_end() -> None:
    assert arena(1024).view(view(shape=(0,), strides=(1,)), 1024).numel() == 0


@pytest.mark.parametrize(("base", "offset"), [(1008, 0), (1000, 4), (-256, 256), (2, 0), (0, 2)])
def test_a_view_that_leaves_or_is_not_aligned_is_refused(base: int, offset: int) -> None:
    with pytest.raises(ValueError, match="cannot lie"):
        arena(1024).view(view(offset=offset), base)


def test_a_closed_arena_is_seen_no_more() -> None:
    released = []
    memory = Arena(torch.zeros(512, dtype=torch.uint8), lambda: released.append(1))
    memory.view(view(), 0)
    memory.close()
    memory.close()
    assert released == [1]
    with pytest.raises(ValueError, match="closed"):
        memory.tensor(0, 1)
    with pytest.raises(ValueError, match="closed"):
        memory.view(view(), 0)


def test_on_the_host_there_is_no_stream_to_wait_in() -> None:
    with arena(256).queue(5) as entered:
        assert entered is None
