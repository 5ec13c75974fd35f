"""Fused, two steps, a few, many."""

import pytest

from archive.descriptors.launches import LaunchCount


@pytest.mark.parametrize(
    "reading, label", [(1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5 or more"), (40, "5 or more")]
)
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = LaunchCount().coordinate({"launches": reading})
    assert coordinate is not None
    assert LaunchCount.labels[coordinate["bin"]] == label
