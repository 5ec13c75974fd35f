"""A small model of exported packages: it calls each operator, notes who computes it, and an error is found."""

import pytest
import torch

from benchmarks.exported_model import DEFINITIONS, FEATURES, TOKENS, WORDS, Decoder, Watched, error_of, loaded


def test_every_operator_is_called_with_what_a_package_takes() -> None:
    watched = {
        name: Watched(loaded(path, name), lambda tensors, scalars: f"{len(tensors)} tensors, {scalars}")
        for name, path in DEFINITIONS.items()
    }
    with torch.no_grad():
        loss, likely = Decoder({**watched})(torch.randn(1, TOKENS, FEATURES).bfloat16(), torch.arange(TOKENS))
    assert loss.shape == () and likely.shape == (1, WORDS) and float(likely.sum()) == pytest.approx(1.0, abs=0.05)
    counts = {name: set(each.reasons) for name, each in watched.items()}
    assert counts.pop("attention") == {"3 tensors, (True,)"} and counts.pop("paged_decode") == {"6 tensors, ()"}
    assert all(len(reasons) == 1 for reasons in counts.values()) and len(counts) == len(DEFINITIONS) - 2


def test_an_error_is_relative_to_the_largest_value_of_each_result() -> None:
    exact = (torch.tensor(4.0), torch.tensor([1.0, -200.0]))
    assert error_of(exact, exact) == 0.0
    assert error_of((torch.tensor(4.0), torch.tensor([2.0, -200.0])), exact) == pytest.approx(1 / 200)
    assert error_of((torch.tensor(5.0), exact[1]), exact) == pytest.approx(1 / 4)
