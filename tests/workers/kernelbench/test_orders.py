"""Orders are proposed for arguments that have one, and for no others."""

import pytest
import torch

from tests.workers.kernelbench.test_inspection import look
from workers.kernelbench.orders import ObservedOrder, order_of, taken_for_starts
from workers.protocol import Distribution

SCATTERED = [3, 900, 17, 250, 4, 88, 600, 31, 777, 12, 345, 501, 66, 999, 128, 7, 42, 813, 290, 56]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([0, 3, 3, 10, 64], ObservedOrder(Distribution.OFFSETS, 0, 64)),
        ([0, 64], ObservedOrder(Distribution.OFFSETS, 0, 64)),
        ([[0, 5, 64], [0, 0, 64]], ObservedOrder(Distribution.OFFSETS, 0, 64)),
        ([3, 10, 10, 64], ObservedOrder(Distribution.ENDS, 0, 64)),
        ([30, 4, 0, 30], ObservedOrder(Distribution.COUNTS, 0, 64)),
        ([2, 0, 1, 3], ObservedOrder(Distribution.UNIQUE, 0, 4)),
        ([0, 0, 1, 1, 1, 3, 5, 9], ObservedOrder(Distribution.SORTED, 0, 10)),
        ([0, 3, 10, 63], ObservedOrder(None, 0, 64)),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], ObservedOrder(None, 0, 10)),
        ([7, 7, 7, 7, 7, 7, 7, 7], ObservedOrder(None, 0, 8)),
        ([5, 900, 30], ObservedOrder(None, 0, 901)),
        (1234, ObservedOrder(None, 0, 1235)),
        ([-4, 2, 2], ObservedOrder(None, -4, 3)),
        ([-100, 3, -100, 7, 7], ObservedOrder(None, 0, 8, marker=-100)),
        ([-1, -1, 0, 1, 1, 3, 3, 9, 9, 9], ObservedOrder(None, 0, 10, marker=-1)),
        ([2, -1, 0, -1, 3, 1], ObservedOrder(Distribution.UNIQUE, 0, 4, marker=-1)),
        ([-1, -1, -2, 7], ObservedOrder(None, -2, 8)),
        ([-100, -100], ObservedOrder(None, -100, -99)),
        (SCATTERED, ObservedOrder(None, 0, 1000)),
        ([*SCATTERED, *range(1000, 1100)][::-1], ObservedOrder(Distribution.UNIQUE, 0, 1100)),
        ([*SCATTERED, *range(1000, 1400), 4050][::-1], ObservedOrder(Distribution.UNIQUE, 0, 4096)),
        ([*SCATTERED, *range(1000, 1400), 2000][::-1], ObservedOrder(Distribution.UNIQUE, 0, 2001)),
    ],
)
def test_an_order_is_recognised_by_its_values(values: list[int], found: ObservedOrder) -> None:
    assert order_of(torch.tensor(values), {64, 16, 4096}) == found


@pytest.mark.parametrize(
    "tensor", [torch.tensor(3.0), torch.zeros(0, dtype=torch.int64), torch.zeros(4), torch.tensor([True])]
)
def test_other_tensors_have_none(tensor: torch.Tensor) -> None:
    assert order_of(tensor, {64}) is None


def test_bytes_that_nearly_fill_their_dtype_may_have_all_values() -> None:
    every = torch.arange(256).repeat(16)
    assert order_of(every.clamp(max=254).to(torch.uint8), {64}) == ObservedOrder(None, 0, 256)
    assert order_of((every - 128).clamp(-127, 127).to(torch.int8), {64}) == ObservedOrder(None, -128, 128)
    assert order_of(every.clamp(max=9).to(torch.uint8), {64}) == ObservedOrder(None, 0, 10)
    assert order_of((every % 15 - 7).to(torch.int8), {64}) == ObservedOrder(None, -7, 8)


def test_sorted_integers_from_zero_may_be_starts_of_segments() -> None:
    offsets = order_of(torch.arange(0, 630, 10), {640})
    assert offsets is not None and offsets.distribution is Distribution.SORTED
    assert taken_for_starts(offsets, {640, 7}) == ObservedOrder(Distribution.STARTS, 0, 640)
    assert taken_for_starts(offsets, {7, 5000}) == offsets
    other = ObservedOrder(None, 0, 621)
    assert taken_for_starts(other, {640}) == other


BAGS = """
import torch
from torch import nn

class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(512, 16, mode="mean")

    def forward(self, indices, offsets):
        return self.bag(indices, offsets)

def example_inputs():
    offsets = torch.arange(0, 640, 10)
    return [torch.randint(0, 512, (640,)), offsets]
"""


def test_integers_that_a_file_takes_only_as_starts_are_starts() -> None:
    found = look(BAGS)
    assert found.reason == "" and found.inputs[1].distribution is Distribution.STARTS
    assert found.inputs[1].high == found.inputs[0].shape[0] and set(found.ranges) == {"D0", "D1"}


def test_a_file_that_fails_with_drawn_integers_is_told_so() -> None:
    text = """
import torch

def picked(x, at):
    if not torch.is_grad_enabled() and bool((at % 2).any()) and not x.is_meta:
        raise ValueError("odd")
    return x[at]

def example_inputs():
    return [torch.randn(64, 8), 2 * torch.randint(0, 32, (40,))]
"""
    text = text.replace("bool((at % 2).any()) and not x.is_meta", "type(x) is torch.Tensor and bool((at % 2).any())")
    found = look(text)
    assert "with integers as drawn for 'at' it raises ValueError: odd: take arguments" in found.reason


FILE = """
import torch

def bags(table, offsets, places, bias):
    at = torch.arange(places.shape[0], device=table.device)
    segment = torch.searchsorted(offsets, at, right=True) - 1
    y = torch.zeros((offsets.shape[0] - 1, table.shape[1]), device=table.device)
    y = y.index_add(0, segment, table[places])
    return y if bias is None else y + bias

def example_inputs():
    offsets = torch.cat([torch.zeros(1), torch.full((20,), 32.0).cumsum(0)]).int()
    return [
        [torch.randn(640, 96), offsets, torch.randperm(640), torch.randn(96)],
        [torch.randn(640, 96), offsets, torch.randperm(640), None],
    ]
"""


def test_a_file_with_segments_a_permutation_and_none_becomes_a_spec_that_says_so() -> None:
    found = look(FILE, target="bags")
    assert found.reason == ""
    table, offsets, places, bias = found.inputs
    assert (offsets.distribution, offsets.high) == (Distribution.OFFSETS, table.shape[0])
    assert (places.distribution, places.high) == (Distribution.UNIQUE, table.shape[0])
    assert bias.optional and not places.optional
    assert found.ranges[str(offsets.shape[0])][0] == 2
    said = " ".join(found.notes)
    assert "'offsets' holds offsets of segments" in said and "'places' holds different indices" in said
    assert "'bias' is None in an example" in said


def test_integers_of_unknown_making_have_the_bounds_of_the_examples() -> None:
    examples = "[torch.randn(64, 32), torch.tensor([[5, 2, 2], [60, 5, 5]])]"
    text = f"import torch\ndef f(x, i):\n    return x[i]\ndef example_inputs():\n    return {examples}\n"
    found = look(text, target="f")
    assert (found.inputs[1].distribution, found.inputs[1].high) == (None, found.inputs[0].shape[0])
    assert any("Values of 'i' are from 0 to below D0" in note for note in found.notes)
    far = look(text.replace("randn(64", "randn(4000"), target="f")  # 60 is no sign of 4000 rows
    assert far.inputs[1].high == 61.0 and far.inputs[0].shape[0] not in far.ranges


def test_a_permutation_of_a_fixed_length_keeps_its_bound_as_long() -> None:
    source = """
import torch

def restored(rows, inverse, weights):
    tokens, experts = weights.shape
    return (rows[inverse].view(tokens, experts, -1) * weights[..., None]).sum(1)

def example_inputs():
    return [torch.randn(64, 32), torch.randperm(64), torch.rand(32, 2)]
"""
    found = look(source)
    by_name = {item.name: item for item in found.inputs}
    assert by_name["inverse"].distribution is Distribution.UNIQUE and by_name["inverse"].shape == (64,)
    assert by_name["inverse"].high == by_name["rows"].shape[0] and by_name["inverse"].high not in found.ranges
