"""Indices stay within what they index: dimensions that they reach are joined, or keep their size."""

import pytest

from tests.workers.kernelbench.test_inspection import look

HEADER = "import torch\n\n"
POSITIONS = """
def packed(hidden, cu_seqlens, table):
    rows = torch.arange(hidden.shape[0], device=hidden.device)
    start = cu_seqlens[torch.searchsorted(cu_seqlens, rows, right=True) - 1]
    return hidden + table[rows - start]


def example_inputs():
    return [torch.randn(300, 64), torch.tensor([0, 17, 200, 300]), torch.randn({rows}, 64)]
"""
TYPES = """
def packed(hidden, lengths, types):
    rows = torch.arange(hidden.shape[0], device=hidden.device)
    segment = torch.searchsorted(lengths.cumsum(0), rows, right=True).clamp(max=lengths.shape[0] - 1)
    return hidden + types[segment]


def example_inputs():
    return [torch.randn(300, 64), torch.tensor([17, 183, 80, 20]), torch.randn(4, 64)]
"""
GATHERED = """
def packed(table, index):
    return table[index]


def example_inputs():
    return [torch.randn(300, 64), torch.randint(0, 300, (300,))]
"""


def test_a_table_of_positions_has_as_many_rows_as_there_are_positions() -> None:
    found = look(HEADER + POSITIONS.replace("{rows}", "300"))
    (hidden, offsets, table) = found.inputs
    assert hidden.shape[0] == table.shape[0] == offsets.high == "D0" and found.ranges["D0"] == (1, 300)


def test_a_table_of_another_size_is_told_apart_all_the_same() -> None:
    hidden, offsets, table = look(HEADER + POSITIONS.replace("{rows}", "512")).inputs
    assert hidden.shape[0] == offsets.high == "D0" != table.shape[0]


def test_a_size_that_indices_of_a_fixed_number_reach_stays() -> None:
    found = look(HEADER + TYPES)
    types = found.inputs[2].shape[0]
    assert types not in found.ranges and (types == 4 or found.shapes[0][types] == 4)
    assert found.inputs[1].high == found.inputs[0].shape[0]


def test_the_bound_of_indices_is_the_axis_that_they_index_where_others_have_its_size() -> None:
    table, index = look(HEADER + GATHERED).inputs
    assert index.high == table.shape[0] != index.shape[0]


LENGTHS = """
def attended(scores, lengths):
    at = torch.arange(scores.shape[1], device=scores.device)
    return scores.masked_fill(at >= lengths[:, None], float("-inf")).softmax(-1)


def example_inputs():
    return [torch.randn(8, 512), {0}]
"""


@pytest.mark.parametrize("made", ["torch.randint(1, 513, (8,))", "torch.tensor([512, 3, 77, 100, 4, 512, 9, 9])"])
def test_lengths_of_up_to_a_whole_axis_are_bounded_by_it(made: str) -> None:
    found = look(HEADER + LENGTHS.replace("{0}", made))
    scores, lengths = found.inputs
    assert lengths.high == f"{scores.shape[1]}+1" and found.ranges[scores.shape[1]][1] == 512
    assert f"Values of 'lengths' are at most {scores.shape[1]}" in found.notes[-1]


def test_lengths_that_two_sizes_may_bound_keep_their_numbers() -> None:
    text = LENGTHS.replace("{0}", "torch.randint(1, 513, (8,)), torch.randn(8, 512)")
    text = text.replace("lengths)", "lengths, other)").replace("softmax(-1)", "softmax(-1), other * 2")
    assert look(HEADER + text).inputs[1].high == 513.0


JOINED = """
def merge(old, new, index):
    return torch.cat([old, new])[index]


def example_inputs():
    yield [torch.randn(100, 8), torch.randn(28, 8), torch.randint(0, 128, (300,))]
    yield [torch.randn(128, 8), torch.randn({fewest}, 8), torch.randint(0, 128, (10,))]
"""


def test_indices_of_tensors_that_are_joined_stay_below_the_sum_of_their_sizes() -> None:
    found = look(HEADER + JOINED.replace("{fewest}", "0"))
    assert found.inputs[2].high == "D0+D1" and found.ranges == {"D0": (1, 128), "D1": (0, 28), "D2": (1, 300)}
    assert len(found.shapes) == 1  # Empty tensors are judged, not timed.


LIMITED = """
def pick(table, index, bias):
    return table[index] + bias


def example_inputs():
    return [torch.randn(300, 64), torch.randint(0, 290, (40,)), torch.randn(40, 64)]
"""


def test_a_size_that_indices_reach_stays_and_others_vary() -> None:
    found = look(HEADER + LIMITED)
    table, index, bias = found.inputs
    assert index.high == 290 and found.ranges == {str(index.shape[0]): (1, 40), str(table.shape[1]): (1, 64)}
    assert bias.shape == (index.shape[0], table.shape[1])


IGNORED = """
def loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)


def example_inputs():
    labels = torch.randint(0, 40, (64,))
    labels[::7] = -100
    return [torch.randn(64, 40), labels]
"""


def test_labels_to_ignore_are_a_marker_beside_the_classes() -> None:
    found = look(HEADER + IGNORED)
    logits, labels = found.inputs
    assert labels.marker == -100 and labels.high == logits.shape[1] and not labels.low
    assert any("-100 in place of some" in note for note in found.notes)


CACHES = """
def write(keys, values, k, v, slots):
    keys.index_copy_(0, slots, k)
    values.index_copy_(0, slots, v)


def example_inputs():
    pair = [torch.zeros(64, 8), torch.zeros(64, 8)]
    return [*pair, torch.randn(16, 8), torch.randn(16, 8), torch.randperm(64)[:16]]
"""


def test_caches_with_the_same_slots_have_the_same_size() -> None:
    keys, values, _, _, slots = look(HEADER + CACHES).inputs
    assert keys.shape[0] == values.shape[0] == slots.high
