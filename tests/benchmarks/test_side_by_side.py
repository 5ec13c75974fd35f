"""Kernels of a row by name, what they compute, and what TorchInductor chose."""

import argparse
import json
from pathlib import Path

import pytest
import torch

from benchmarks import side_by_side
from benchmarks.side_by_side import BEST, RowKernels, checked, drawn, error_of, kernels_of
from benchmarks.suites import SuiteEntry
from service.operators.catalogue import parse_operator

ENTRY = SuiteEntry("softmax", {"M": 8, "N": 32})
PLAIN = "import torch\n\n\ndef softmax(x):\n    return torch.softmax(x.float(), -1).to(x.dtype)\n"
WRONG = "def softmax(x):\n    return 0 * x\n"


def test_kernels_come_from_seeds_files_and_former_searches(tmp_path: Path) -> None:
    (tmp_path / "softmax").mkdir()
    (tmp_path / "softmax/mine.py").write_text(PLAIN)
    asked = argparse.Namespace(kernels=tmp_path, baselines=["native"], names=[])
    found = kernels_of(ENTRY, asked, {ENTRY.key: (WRONG, {})}, tmp_path)
    assert {BEST, "plain", "walk", "mine", "native"} <= found.functions.keys()
    asked.names = ["mine", BEST]
    assert list(kernels_of(ENTRY, asked, {ENTRY.key: (WRONG, {})}, tmp_path).functions) == [BEST, "mine"]


def test_a_kernel_that_fails_has_a_reason_and_a_wrong_one_an_error(tmp_path: Path) -> None:
    kernels = RowKernels(ENTRY, tmp_path)
    kernels.add_best(WRONG)
    (tmp_path / "mine.py").write_text(PLAIN)
    (tmp_path / "broken.py").write_text("def softmax(x):\n    raise ValueError('no')\n")
    kernels.add_files([tmp_path / "mine.py", tmp_path / "broken.py"])
    ran, told = checked(kernels, drawn(kernels.operator, ENTRY.dims, 1, "cpu")[0])
    assert list(ran) == [BEST, "mine"]
    assert told["broken"] == {"reason": "ValueError: no"}
    assert told[BEST]["error"] == 1.0 and told["mine"]["error"] < 0.01


def test_numbers_follow_tensors_and_sets_differ() -> None:
    entry = SuiteEntry("attention", {"B": 1, "H": 1, "T": 4, "D": 16})
    sets = drawn(parse_operator(entry.contract()), entry.dims, 2, "cpu")
    assert [type(each) for each in sets[0]] == [torch.Tensor] * 3 + [bool]
    assert not torch.equal(sets[0][0], sets[1][0])


def test_errors_are_relative_to_the_largest_value() -> None:
    assert error_of(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 8.0])) == 0.5
    assert error_of((torch.tensor([2.0]),), torch.tensor([2.0])) == 0.0


def test_rows_are_written_without_times_where_there_is_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "ANCHOR", (ENTRY,))
    options = ["--rows", "softmax", "--device", "cpu", "--names", "native", "--baselines", "native"]
    monkeypatch.setattr("sys.argv", ["side_by_side.py", *options, "--out", str(tmp_path)])
    side_by_side.main()
    (row,) = json.loads((tmp_path / "side_by_side.json").read_text())["rows"]
    assert row["row"] == ENTRY.key and row["kernels"]["native"]["error"] < 0.01 and "times" not in row
