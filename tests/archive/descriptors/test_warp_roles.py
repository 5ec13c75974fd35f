"""Each word has a bin; an unknown one has no place."""

import pytest

from archive.descriptors.warp_roles import WarpRoles


@pytest.mark.parametrize("reading, label", [("same", "same"), ("specialised", "specialised")])
def test_kernels_lie_where_their_label_says(reading: str, label: str) -> None:
    coordinate = WarpRoles().coordinate({"warp_roles": reading})
    assert coordinate is not None
    assert WarpRoles.labels[coordinate["bin"]] == label


def test_a_word_of_another_protocol_has_no_place() -> None:
    assert WarpRoles().coordinate({"warp_roles": "elsewhere"}) is None
