"""Each width of a vector load has a bin of its own."""

import pytest

from archive.descriptors.load_width_bytes import LoadWidthBytes


@pytest.mark.parametrize(
    "reading, label",
    [(0, "1 or none"), (1, "1 or none"), (2, "2"), (4, "4"), (8, "8"), (16, "16 or more"), (32, "16 or more")],
)
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = LoadWidthBytes().coordinate({"load_width_bytes": reading})
    assert coordinate is not None
    assert LoadWidthBytes.labels[coordinate["bin"]] == label
