"""A function in memory is searched for and judged by commands of their own."""

from pathlib import Path

import pytest
import torch

import kernelreef
from kernelreef.errors import InvalidInput, ServiceError

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x * FACTOR, mask=at < n)


def doubled(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_DATA_DIR", str(tmp_path / "data"))


def test_a_kernel_is_judged_against_a_function(tmp_path: Path) -> None:
    right = kernelreef.judge(doubled, [torch.randn(8, 32)], kernel=KERNEL.replace("FACTOR", "2.0"))
    assert (right.outcome, right.reason) == ("correct", "") and right.document["speedup"]["mid"] > 0
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("FACTOR", "2.5"))
    assert kernelreef.judge(doubled, [torch.randn(8, 32)], kernel=path).outcome == "wrong_result"


def test_a_search_for_a_function_ends_with_a_kernel(tmp_path: Path) -> None:
    found = kernelreef.search(doubled, [torch.randn(8, 32)], out=tmp_path / "out", evaluations=1, vary=())
    assert found.kernel is not None and "def doubled(x)" in found.kernel.read_text()
    assert found.speedup == 1.0 and "PREDICTED" in found.figures and found.document["evaluations"] == 1
    assert (tmp_path / "out" / "doubled" / "operator.toml").is_file()


def test_a_failure_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="example arguments"):
        kernelreef.search(doubled)
    with pytest.raises(InvalidInput, match="cannot be traced: none of its arguments"):
        kernelreef.search(lambda n: torch.ones(n), [3])
    with pytest.raises(ServiceError, match="`reef search` ended with status 2"):
        kernelreef.search(doubled, [torch.randn(8, 32)], out=tmp_path, device="abacus")
