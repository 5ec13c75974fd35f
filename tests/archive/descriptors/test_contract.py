"""Every descriptor keeps the contract of its socket."""

import random
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS, Descriptor, coordinates
from archive.grid import Grid
from workers.protocol import Readings

every_descriptor = pytest.mark.parametrize("descriptor", DESCRIPTORS.values(), ids=DESCRIPTORS)

readings = st.fixed_dictionaries(
    {
        "launches": st.integers(1, 64),
        "programs": st.integers(1, 2**31 - 1),
        "programs_per_sm": st.floats(1e-3, 1e8),
        "num_warps": st.sampled_from([1, 2, 4, 8, 16, 32]),
        "registers": st.integers(8, 512),
        "spill_bytes": st.integers(0, 2**16),
        "shared_bytes": st.integers(0, 2**20),
        "occupancy": st.floats(0, 1),
        "load_width_bytes": st.sampled_from([0, 1, 2, 4, 8, 16, 32]),
        "memory_path": st.sampled_from(["plain", "async", "bulk"]),
        "tensor_core": st.sampled_from(["none", "mma", "wgmma"]),
        "persistent": st.booleans(),
        "warp_roles": st.sampled_from(["same", "specialised"]),
        "cluster_size": st.sampled_from([1, 2, 4, 8, 16]),
        "accumulators": st.sampled_from(["none", "registers", "tensor_memory"]),
    }
)


@every_descriptor
def test_it_is_in_the_table_under_its_name(descriptor: Descriptor) -> None:
    assert DESCRIPTORS[descriptor.name] is descriptor
    assert descriptor.meaning
    assert isinstance(descriptor.unit, str)


@every_descriptor
def test_edges_ascend_and_every_bin_has_its_label(descriptor: Descriptor) -> None:
    assert list(descriptor.edges) == sorted(set(descriptor.edges))
    assert len(descriptor.labels) == len(descriptor.edges) + 1 == descriptor.axis.bins
    assert len(set(descriptor.labels)) == len(descriptor.labels)
    assert descriptor.axis.descriptor == descriptor.name


@every_descriptor
def test_it_has_the_name_of_a_reading(descriptor: Descriptor) -> None:
    assert descriptor.name in Readings.model_fields
    assert len(descriptor.choices) in (0, descriptor.axis.bins)


@every_descriptor
@given(found=readings)
def test_it_places_every_plausible_kernel(descriptor: Descriptor, found: dict[str, Any]) -> None:
    coordinate = descriptor.coordinate(found)
    assert coordinate is not None
    assert isfinite(coordinate["value"])
    assert 0 <= coordinate["bin"] < descriptor.axis.bins
    assert coordinate["bin"] == descriptor.bin(coordinate["value"])


@every_descriptor
@given(found=readings)
def test_it_sees_its_own_reading_alone(descriptor: Descriptor, found: dict[str, Any]) -> None:
    assert descriptor.value({descriptor.name: found[descriptor.name]}) == descriptor.value(found)


@every_descriptor
def test_it_has_no_value_where_a_reading_is_unknown(descriptor: Descriptor) -> None:
    assert descriptor.value({}) is None
    assert descriptor.coordinate({descriptor.name: None}) is None


@every_descriptor
def test_bins_grow_with_the_value_and_all_can_be_reached(descriptor: Descriptor) -> None:
    below, above = descriptor.edges[0] - 1, descriptor.edges[-1] + 1
    rng = random.Random(0)
    values = sorted([below, *descriptor.edges, *(rng.uniform(below, above) for _ in range(2000))])
    bins = [descriptor.bin(value) for value in values]
    assert bins == sorted(bins)
    assert set(bins) == set(range(descriptor.axis.bins))
    assert [descriptor.bin(edge) for edge in descriptor.edges] == list(range(1, descriptor.axis.bins))


@given(found=readings)
def test_coordinates_have_every_descriptor_with_a_value(found: dict[str, Any]) -> None:
    assert set(coordinates(found)) == set(DESCRIPTORS)
    assert Grid([DESCRIPTORS[name].axis for name in DEFAULT_AXES]).index(coordinates(found)) is not None
    del found["registers"]
    assert set(coordinates(found)) == set(DESCRIPTORS) - {"registers"}


def test_coordinates_take_readings_off_the_wire() -> None:
    found = Readings(launches=1, programs=4096, programs_per_sm=31.03, num_warps=4).model_dump(mode="json")
    assert coordinates(found) == {
        "programs_per_sm": {"value": 31.03, "bin": 5},
        "num_warps": {"value": 4.0, "bin": 2},
        "launches": {"value": 1.0, "bin": 0},
    }


def test_default_axes_are_three_descriptors() -> None:
    assert len(DEFAULT_AXES) == len(set(DEFAULT_AXES)) == 3
    assert set(DEFAULT_AXES) <= set(DESCRIPTORS)
