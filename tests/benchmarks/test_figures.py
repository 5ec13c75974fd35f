"""Names of cards, for processes that see one card alone."""

import pytest

from benchmarks.figures import visible_card


@pytest.mark.parametrize(
    ("seen", "number", "name"), [(None, 1, "1"), ("", 0, "0"), ("1", 0, "1"), ("3,GPU-5e", 1, "GPU-5e")]
)
def test_a_card_is_named_as_the_host_names_it(monkeypatch: pytest.MonkeyPatch, seen, number, name):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    assert visible_card(number) == name
