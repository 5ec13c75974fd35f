"""Errors are told in a line, and a shortage of memory is told from other faults."""

import pytest
import torch

from workers.errors import first_line, lacks_memory


def test_an_error_is_told_by_its_class_and_its_first_line() -> None:
    assert first_line(ValueError("one\ntwo")) == "ValueError: one"
    assert first_line(RuntimeError()) == "RuntimeError: ", "it may say nothing"


@pytest.mark.parametrize(
    ("said", "lacking"),
    [
        ("CUDA out of memory. Tried to allocate 34.00 GiB.", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("CUDA_ERROR_OUT_OF_MEMORY", True),
        ("CUDA error: an illegal memory access was encountered", False),
        ("more than one element of the written-to tensor refers to a single memory location", False),
    ],
)
def test_a_shortage_of_memory_is_told_from_other_errors(said: str, lacking: bool) -> None:
    assert lacks_memory(said) is lacking


def test_the_host_has_too_little_memory_too() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.zeros(2**46)
    assert lacks_memory(str(raised.value))
