"""Only a full SM is in the last bin."""

import pytest

from archive.descriptors.occupancy import Occupancy


@pytest.mark.parametrize(
    "reading, label", [(0.0625, "under 25%"), (0.25, "25-50%"), (0.5, "50-75%"), (0.9375, "75-100%"), (1.0, "100%")]
)
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = Occupancy().coordinate({"occupancy": reading})
    assert coordinate is not None
    assert Occupancy.labels[coordinate["bin"]] == label
