"""Each number of warps that Triton takes has a bin of its own."""

import pytest

from archive.descriptors.num_warps import NumWarps


@pytest.mark.parametrize("reading, label", [(1, "1"), (2, "2"), (4, "4"), (8, "8"), (16, "16"), (32, "32")])
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = NumWarps().coordinate({"num_warps": reading})
    assert coordinate is not None
    assert NumWarps.labels[coordinate["bin"]] == label
