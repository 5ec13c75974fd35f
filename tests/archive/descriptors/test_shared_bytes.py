"""Limits belong to the bin below: a kernel may take exactly 99 KiB."""

import pytest

from archive.descriptors.shared_bytes import SharedBytes


@pytest.mark.parametrize(
    "reading, label",
    [
        (0, "none"),
        (16, "under 1 KiB"),
        (1024, "1-16 KiB"),
        (16384, "16-48 KiB"),
        (49152, "48-99 KiB"),
        (101376, "48-99 KiB"),
        (232448, "over 99 KiB"),
    ],
)
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = SharedBytes().coordinate({"shared_bytes": reading})
    assert coordinate is not None
    assert SharedBytes.labels[coordinate["bin"]] == label
