"""Each path has a bin; an unknown one has no place."""

import pytest

from archive.descriptors.memory_path import MemoryPath


@pytest.mark.parametrize("reading, label", [("plain", "plain"), ("async", "async"), ("bulk", "bulk")])
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = MemoryPath().coordinate({"memory_path": reading})
    assert coordinate is not None
    assert MemoryPath.labels[coordinate["bin"]] == label


def test_a_word_of_another_protocol_has_no_place() -> None:
    assert MemoryPath().coordinate({"memory_path": "warp-specialised"}) is None
