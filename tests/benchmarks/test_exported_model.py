"""A small model of exported packages: it calls each operator, notes who computes it, and an error is found."""

from typing import Any

import pytest
import torch

from benchmarks.exported_model import DEFINITIONS, FEATURES, TOKENS, WORDS, Decoder, Trial, Watched, error_of, loaded


@pytest.mark.parametrize("batch", [1, 2])
def test_every_operator_is_called_with_what_a_package_takes(batch: int) -> None:
    def said(tensors: Any, scalars: Any) -> str:
        assert all(each.is_contiguous() for each in tensors), "kernels take no others"
        return f"{len(tensors)} tensors, {scalars}"

    watched = {name: Watched(loaded(path, name), said) for name, path in DEFINITIONS.items()}
    with torch.no_grad():
        x, target = torch.randn(batch, TOKENS, FEATURES).bfloat16(), torch.arange(batch * TOKENS)
        loss, likely = Decoder({**watched})(x, target)
    assert (
        loss.shape == () and likely.shape == (batch, WORDS) and float(likely[0].sum()) == pytest.approx(1.0, abs=0.05)
    )
    counts = {name: set(each.reasons) for name, each in watched.items()}
    assert counts.pop("attention") == {"3 tensors, (True,)"} and counts.pop("paged_decode") == {"6 tensors, ()"}
    assert all(len(reasons) == 1 for reasons in counts.values()) and len(counts) == len(DEFINITIONS) - 2


def test_an_error_is_relative_to_the_largest_value_of_each_result() -> None:
    exact = (torch.tensor(4.0), torch.tensor([1.0, -200.0]))
    assert error_of(exact, exact) == 0.0
    assert error_of((torch.tensor(4.0), torch.tensor([2.0, -200.0])), exact) == pytest.approx(1 / 200)
    assert error_of((torch.tensor(5.0), exact[1]), exact) == pytest.approx(1 / 4)


def test_a_way_that_fails_is_noted_and_the_others_are_run() -> None:
    def softmax(x: torch.Tensor) -> Any:
        if x.shape[0] == 2:
            raise RuntimeError("no kernel at two rows")
        return torch.softmax(x, -1)

    with torch.no_grad():
        trial = Trial({"softmax": (softmax, lambda tensors, scalars: None)}, "cpu", "eager", operator="one")
        for batch in (1, 2):
            trial.run(batch, 1)
        trial.run_elsewhere(1)
    row = trial.row
    assert row["operator"] == "one" and row["right"] == row["compared"] == 2 and row["served"] == {"1": ["softmax"]}
    assert [(name, batch) for name, batch, _ in row["failed"]] == [
        ("served", 2),
        ("kernels", 2),
        ("kernels_compiled", 2),
    ]
    assert "no kernel at two rows" in row["failed"][1][2] and set(row["ms"]["pytorch"]) == {"1", "2"}
