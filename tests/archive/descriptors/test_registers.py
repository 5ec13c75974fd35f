"""A full step of residency ends exactly at its edge."""

import pytest

from archive.descriptors.registers import Registers


@pytest.mark.parametrize(
    "reading, label",
    [
        (16, "up to 32"),
        (32, "up to 32"),
        (33, "33-64"),
        (64, "33-64"),
        (65, "65-96"),
        (96, "65-96"),
        (128, "97-128"),
        (129, "129 or more"),
        (255, "129 or more"),
    ],
)
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = Registers().coordinate({"registers": reading})
    assert coordinate is not None
    assert Registers.labels[coordinate["bin"]] == label
