"""Each matrix instruction has a bin; an unknown one has no place."""

import pytest

from archive.descriptors.tensor_core import TensorCore


@pytest.mark.parametrize("reading, label", [("none", "none"), ("mma", "mma"), ("wgmma", "wgmma")])
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = TensorCore().coordinate({"tensor_core": reading})
    assert coordinate is not None
    assert TensorCore.labels[coordinate["bin"]] == label


def test_a_word_of_another_protocol_has_no_place() -> None:
    assert TensorCore().coordinate({"tensor_core": "warp-specialised"}) is None
