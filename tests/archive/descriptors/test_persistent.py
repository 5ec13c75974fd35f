"""One bin for each answer."""

import pytest

from archive.descriptors.persistent import Persistent


@pytest.mark.parametrize("reading, label", [(False, "one tile a program"), (True, "persistent")])
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = Persistent().coordinate({"persistent": reading})
    assert coordinate is not None
    assert Persistent.labels[coordinate["bin"]] == label
