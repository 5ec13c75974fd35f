"""The kernels in Triton's interpreter, which must be chosen before Triton is imported: in a process of its own."""

import os
import subprocess
import sys
from math import erf, sqrt
from pathlib import Path

import pytest
import torch

from tests.workers.device_kernels.interpreted import COUNT, PLACED, ROOM

SCRIPT = Path(__file__).with_name("interpreted.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, torch.Tensor]:
    file = tmp_path_factory.mktemp("interpreted") / "tensors.pt"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, SCRIPT, file], env=environment, check=True, cwd=Path.cwd(), timeout=240)
    return torch.load(file)


def drawn(found: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    return found[name][:COUNT].double()


def distance(values: torch.Tensor, shares: torch.Tensor) -> float:
    """Kolmogorov and Smirnov's: how far the values' distribution is from one, given as shares of sorted values."""
    steps = torch.arange(1, len(values) + 1, dtype=torch.float64) / len(values)
    return float(torch.maximum((steps - shares).abs(), (steps - 1 / len(values) - shares).abs()).max())


OUTLYING_SAMPLES = ("normal", "other_seed", *(f"seed_{seed}" for seed in range(10)))
LIMIT = 1.95 / sqrt(COUNT)
"""Of that distance, which one sample in a thousand passes."""


@pytest.mark.parametrize("name", ["normal", "other_seed"])
def test_normal_values_are_normal(found, name: str) -> None:
    values = drawn(found, name).sort().values
    shares = torch.tensor([(1 + erf(value / sqrt(2))) / 2 for value in values.tolist()], dtype=torch.float64)
    assert distance(values, shares) < LIMIT
    assert 3 < float(values.abs().quantile(0.999)) < 4 < 7 > float(values.abs().max()) / 16


def test_outliers_are_rare_and_stand_in_even_and_odd_places(found) -> None:
    places = torch.cat([drawn(found, name).abs().gt(7).nonzero().flatten() for name in OUTLYING_SAMPLES])
    assert 5 < len(places) < 60
    assert {int(place) % 2 for place in places} == {0, 1}


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5, 6, 7, 8, 512, 2048])
def test_normal_values_are_independent(found, lag: int) -> None:
    values = drawn(found, "normal")
    for one, other in ((values, values), (values.square() - 1, values.square() - 1), (values, values.square() - 1)):
        product = one[lag:] * other[:-lag]
        assert abs(float(product.mean())) < 4 * float(product.std()) / sqrt(len(product))


def test_seeds_give_independent_values(found) -> None:
    one, other = drawn(found, "normal"), drawn(found, "other_seed")
    assert abs(float((one * other).mean())) < 4 / sqrt(COUNT)
    assert not (one == other).any()


def test_equal_seeds_give_equal_values_anywhere(found) -> None:
    assert torch.equal(found["normal"], found["again"])


def test_a_dtype_rounds_the_same_values(found) -> None:
    assert torch.equal(found["half"], found["normal"].half())


def test_bounds_clamp(found) -> None:
    assert torch.equal(found["clamped"][:COUNT], found["normal"][:COUNT].clamp(-0.5, 2.0))


def test_uniform_values_are_uniform(found) -> None:
    values = drawn(found, "uniform").sort().values
    assert distance(values, (values - 2) / 3) < LIMIT
    assert float(values[0]) >= 2 and float(values[-1]) <= 5
    assert len(values.unique()) > 0.99 * COUNT


@pytest.mark.parametrize(("name", "low", "high"), [("int64", -3, 8), ("int8", 0, 2)])
def test_integers_are_uniform(found, name: str, low: int, high: int) -> None:
    counts = torch.bincount(found[name][:COUNT].long() - low).double()
    assert len(counts) == high - low
    expected = COUNT / len(counts)
    assert float(((counts - expected) ** 2 / expected).sum()) < len(counts) + 5 * sqrt(2 * len(counts))


@pytest.mark.parametrize("name", ["normal", "clamped", "uniform", "half", "int64", "int8"])
def test_nothing_is_written_behind_the_last_element(found, name: str) -> None:
    assert len(found[name]) == COUNT + ROOM
    assert found[name][COUNT:].double().abs().max() == 0


@pytest.mark.parametrize(("changed", "words"), [("none", 0), ("two words", 2), ("ends", 1), ("behind", 0)])
def test_words_that_are_not_poisoned_are_counted(found, changed: str, words: int) -> None:
    assert found[f"unpoisoned_{changed}"].tolist() == [words]


def test_poison_covers_its_ranges_and_no_more(found) -> None:
    poisoned = found["poisoned"] == 0xFF
    expected = torch.zeros_like(poisoned)
    for start, size in ((0, 17), (256, 300), (1024, 1)):
        expected[start : start + size] = True
    assert torch.equal(poisoned, expected)


def test_red_zones_lie_where_they_should(found) -> None:
    zones = found["zones"]
    assert zones[3:704].unique().numel() > 200
    assert zones[:3].max() == zones[704:2048].max() == zones[2053:].max() == 0


def test_a_zones_bytes_follow_from_their_offset_in_the_arena(found) -> None:
    """The other zone starts elsewhere in memory, but at an offset in the arena that the first one covers."""
    assert torch.equal(found["zones"][3 + 200 : 3 + 300], found["zones_moved"][:100])


@pytest.mark.parametrize(("name", "count"), [("clean", 0), ("damaged", 3), ("outside", 0)])
def test_changed_bytes_are_counted(found, name: str, count: int) -> None:
    assert int(found[name]) == count


def test_zones_of_another_seed_differ(found) -> None:
    assert 690 < int(found["another_seed"]) <= 701


def rows_of(found, name: str) -> torch.Tensor:
    columns = PLACED[name.removesuffix(" again")][1]
    return found[name][: COUNT // columns * columns].reshape(-1, columns)


@pytest.mark.parametrize("name", ["offsets", "offsets_of_few", "offsets_of_none", "one_segment"])
def test_offsets_begin_at_zero_never_fall_and_end_at_the_size(found, name: str) -> None:
    offsets = rows_of(found, name)
    assert (offsets[:, 0] == 0).all() and (offsets[:, -1] == PLACED[name][3]).all()
    assert (offsets.diff(dim=1) >= 0).all()


def test_segments_are_unequal_and_some_are_empty(found) -> None:
    counts = rows_of(found, "counts")
    assert (counts.sum(dim=1) == 50).all() and (counts >= 0).all()
    assert 0.02 < float((counts == 0).double().mean()) < 0.2 and int(counts.max()) > 10
    ends = rows_of(found, "ends")
    assert (ends[:, -1] == 50).all() and (ends.diff(dim=1) >= 0).all() and len(ends.unique(dim=0)) > len(ends) // 2
    starts = rows_of(found, "starts")
    assert (starts[:, 0] == 0).all() and (starts[:, 1:] == ends[:, :-1]).all()


@pytest.mark.parametrize("name", ["sorted", "sorted_dense"])
def test_sorted_numbers_never_fall_and_reach_both_ends(found, name: str) -> None:
    values, (_, _, low, among) = rows_of(found, name), PLACED[name]
    assert (
        (values.diff(dim=1) >= 0).all()
        and int(values.min()) == low
        and low + among - 4 < int(values.max()) < low + among
    )


@pytest.mark.parametrize("name", ["unique", "permutation", "one_permutation"])
def test_different_numbers_differ_within_their_bounds(found, name: str) -> None:
    values, (_, _, low, among) = rows_of(found, name), PLACED[name]
    ordered = values.sort(dim=1).values
    assert (ordered.diff(dim=1) > 0).all() and int(values.min()) == low and int(values.max()) == low + among - 1
    assert not torch.equal(values, ordered) and not torch.equal(values, rows_of(found, f"{name} again"))


def test_every_number_of_a_permutation_is_everywhere_equally_often(found) -> None:
    values = rows_of(found, "permutation")
    shares = torch.stack([(values == number).double().mean(dim=0) for number in range(9)])
    assert float((shares - 1 / 9).abs().max()) < 5 * sqrt(8 / 81 / len(values))


@pytest.mark.parametrize("name", PLACED)
def test_nothing_is_written_behind_ordered_numbers(found, name: str) -> None:
    assert not found[name][COUNT:].any()


@pytest.mark.parametrize(("read", "written"), [(96, 96), (512, 32), (32, 512), (512, 0)])
def test_a_copy_writes_what_it_read_and_not_a_word_more(found, read: int, written: int) -> None:
    target, both = found[f"copied_{read}_{written}"], min(read, written)
    assert target[:both].tolist() == list(range(1, both + 1))
    assert not target[both:written].any()
    assert (target[written:] == -1).all()


def test_a_flush_writes_every_word_that_it_touches(found) -> None:
    assert found["flushed"].tolist() == [0] * 12 + [5] * 4
