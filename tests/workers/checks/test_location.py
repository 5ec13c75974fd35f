"""Where results are wrong, in words."""

import torch

from workers.checks.location import at, cluster


def test_subscripts():
    assert at(17, torch.Size([3, 7])) == "[2, 3]"
    assert at(0, torch.Size([])) == "[]"


def mask(*shape):
    return torch.zeros(shape, dtype=torch.bool)


def test_clusters():
    everywhere, tail, head, row = (mask(4, 8) for _ in range(4))
    everywhere[:] = True
    tail[:, 6:] = True
    head[:2] = True
    row[2] = True
    assert cluster(everywhere) == "32 of 32 elements"
    assert cluster(tail).startswith("8 of 32 elements, all from index 6 of axis 1 on, which has 8")
    assert cluster(head) == "16 of 32 elements, all up to index 1 of axis 0, which has 4"
    assert cluster(row) == "8 of 32 elements, all at index 2 of axis 0"
    assert cluster(torch.arange(70) >= 16).endswith("which has 70: is its tail masked?")
    assert cluster(torch.arange(64) >= 32).endswith("which has 64"), "a half of a power of two is no tail"
    assert cluster(torch.arange(70) >= 35).endswith("which has 70"), "no block begins there"
    few = tail.clone()
    few[1:, 6:] = False
    assert cluster(few.repeat(2, 1)).endswith("which has 8"), "where few are wrong, no mask is missing"
    assert cluster(torch.arange(64) >= 15) == "49 of 64 elements"
    assert cluster(torch.tensor(True)) == "1 of 1 elements"
