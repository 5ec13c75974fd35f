"""Predicted, recorded and measured are never confused, and a measured speedup names what it is relative to."""

from typing import Any

import pytest

from service.evaluation.figure_labels import (
    best_baselines,
    bottleneck,
    in_words,
    occupancy_limiter,
    provenance,
    relative_to,
)
from tests.service import records
from workers.protocol import Readings, ShapeResult
from workers.targets import TARGETS

H200 = TARGETS["sm_90"]
FLOOR_US = 100.0
"""Time that the bytes of these readings take at the target's peak bandwidth."""
WORDS = {"PREDICTED", "RECORDED", "MEASURED"}


@pytest.mark.parametrize(
    ("device", "word", "base"),
    [
        ("model:sm_90", "PREDICTED", "seed kernel"),
        ("recorded:h200", "RECORDED", "seed kernel"),
        ("h200", "MEASURED", "best baseline"),
    ],
)
def test_what_figures_are_is_said_in_one_word(device: str, word: str, base: str) -> None:
    text = in_words(device)
    assert {found for found in WORDS if found in text} == {word} and base in text
    assert (provenance(device).upper(), relative_to(device)) == (word, base)


def test_the_best_baseline_of_a_shape_is_the_fastest() -> None:
    shapes = (
        ShapeResult(shape="N=1024", baselines_us={"eager": 40.0, "max_autotune": 12.0, "liger": 12.5}),
        ShapeResult(shape="N=4096", baselines_us={"eager": 9.0, "compile": 10.0}),
        ShapeResult(shape="N=8192"),
    )
    found = best_baselines(records.report({}, shapes=shapes))
    assert found == {"N=1024": "max_autotune", "N=4096": "eager"}


@pytest.mark.parametrize(
    "time_us, changes, bound",
    [
        (1.9 * FLOOR_US, {}, "memory"),
        (2.1 * FLOOR_US, {}, "compute"),
        (2.1 * FLOOR_US, {"programs_per_sm": 0.5}, "latency"),
        (2.1 * FLOOR_US, {"programs_per_sm": 0.5, "tensor_core": "wgmma"}, "compute"),
        (6.0, {"launches": 2, "bytes_required": None}, "latency"),
    ],
)
def test_what_binds_a_kernel_is_what_explains_half_its_time(
    time_us: float, changes: dict[str, Any], bound: str
) -> None:
    required = int(H200.dram_bytes_per_s * FLOOR_US / 1e6)
    readings = records.readings().model_copy(update={"bytes_required": required, **changes})
    assert bottleneck(readings, H200, time_us) == bound


@pytest.mark.parametrize(
    "changes, limiter",
    [
        ({"registers": 255}, "registers"),
        ({"shared_bytes": 100_000}, "shared memory"),
        ({"programs": 100}, "the number of programs in the grid"),
        ({"num_warps": 1}, "the number of programs"),
        ({"num_warps": 32, "registers": 16}, "threads"),
        ({"shared_bytes": None}, ""),
    ],
)
def test_the_resource_that_limits_resident_programs(changes: dict[str, int | None], limiter: str) -> None:
    known = {"launches": 1, "programs": 100_000, "programs_per_sm": 700.0, "num_warps": 8, "registers": 32}
    readings = Readings.model_validate({**known, "shared_bytes": 0, **changes})
    assert occupancy_limiter(readings, TARGETS["sm_90"]) == limiter
