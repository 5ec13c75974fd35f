"""Each word has a bin; an unknown one has no place."""

import pytest

from archive.descriptors.accumulators import Accumulators


@pytest.mark.parametrize(
    "reading, label", [("none", "none"), ("registers", "registers"), ("tensor_memory", "tensor memory")]
)
def test_kernels_lie_where_their_label_says(reading: str, label: str) -> None:
    coordinate = Accumulators().coordinate({"accumulators": reading})
    assert coordinate is not None
    assert Accumulators.labels[coordinate["bin"]] == label


def test_a_word_of_another_protocol_has_no_place() -> None:
    assert Accumulators().coordinate({"accumulators": "elsewhere"}) is None
