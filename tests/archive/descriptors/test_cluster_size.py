"""Sizes of clusters lie in the bins that their labels name."""

import pytest

from archive.descriptors.cluster_size import ClusterSize


@pytest.mark.parametrize("size, label", [(1, "1"), (2, "2-3"), (4, "4-7"), (8, "8 or more"), (16, "8 or more")])
def test_kernels_lie_where_their_label_says(size: int, label: str) -> None:
    coordinate = ClusterSize().coordinate({"cluster_size": size})
    assert coordinate is not None
    assert ClusterSize.labels[coordinate["bin"]] == label


def test_an_unknown_size_has_no_place() -> None:
    assert ClusterSize().coordinate({"cluster_size": None}) is None
