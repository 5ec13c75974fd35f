import pytest
import torch

from workers.device_kernels import (
    ContentJob,
    ContentKind,
    ContentSpec,
    assign_content,
    stream_seed,
    timed_content,
    zone_seed,
)
from workers.device_kernels.contents import MAX_INTEGERS
from workers.inputs import draw
from workers.protocol import Input, Operator, Output, Shape

SEED = "ab" * 16
SHAPE = Shape(dims={"M": 6, "V": 50})


def operator(**fields: object) -> Operator:
    return Operator(
        name="f",
        entry="f",
        reference="def f(x, ids): ...",
        inputs=(
            Input(name="x", shape=("M", "V"), **{"dtype": "bfloat16", **fields}),
            Input(name="ids", shape=("M",), dtype="int64", low=2, high="V"),
        ),
        outputs=(Output(name="y", dtype="bfloat16"),),
        shapes=({"dims": SHAPE.dims},),
    )


def spec(**fields: object) -> ContentSpec:
    return timed_content(operator(**fields), SHAPE)[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"])
def test_floats_are_normal_and_keep_their_distance_from_the_largest(dtype: str) -> None:
    limit = torch.finfo(getattr(torch, dtype)).max / 16
    assert spec(dtype=dtype) == ContentSpec(dtype, 300, ContentKind.NORMAL, -limit, limit)


@pytest.mark.parametrize(
    ("fields", "kind", "low", "high"),
    [
        ({"low": 0.0}, ContentKind.NORMAL, 0.0, None),
        ({"high": 1.0}, ContentKind.NORMAL, None, 1.0),
        ({"distribution": "normal", "low": -1.0, "high": 1.0}, ContentKind.NORMAL, -1.0, 1.0),
        ({"distribution": "uniform"}, ContentKind.UNIFORM, 0.0, 1.0),
        ({"distribution": "uniform", "low": 3.0}, ContentKind.UNIFORM, 3.0, 4.0),
        ({"distribution": "uniform", "low": -3.0, "high": 5.0}, ContentKind.UNIFORM, -3.0, 5.0),
        ({"dtype": "bool"}, ContentKind.INTEGERS, 0, 2),
        ({"dtype": "int32", "high": 7.0}, ContentKind.INTEGERS, 0, 7),
        ({"dtype": "int8", "low": -4.0, "high": -3.0}, ContentKind.INTEGERS, -4, -3),
        ({"dtype": "int64", "low": 1.0, "high": "V"}, ContentKind.INTEGERS, 1, 50),
        ({"dtype": "int64", "low": 60.0, "high": "V"}, ContentKind.INTEGERS, 60, 61),
        ({"dtype": "int64", "high": 2.0**60}, ContentKind.INTEGERS, 0, MAX_INTEGERS),
    ],
)
def test_bounds_are_kept(fields: dict[str, object], kind: ContentKind, low: float | None, high: float | None) -> None:
    found = spec(**fields)
    assert found.kind is kind
    assert low is None or found.low == low
    assert high is None or found.high == high


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"low": 0.0, "high": 0.5},
        {"distribution": "uniform", "low": -3.0, "high": 5.0},
        {"dtype": "int32", "low": -5.0, "high": 7.0},
        {"dtype": "bool"},
    ],
)
def test_contents_have_the_range_of_the_draw(fields: dict[str, object]) -> None:
    found = spec(**fields)
    values = draw(operator(**fields), SHAPE, "normal", 1)[0]
    assert values.numel() == found.elements and values.nbytes == found.bytes
    last = found.high - 1 if found.kind is ContentKind.INTEGERS else found.high
    assert found.low <= float(values.min()) and float(values.max()) <= last


def test_every_input_and_stream_has_a_seed_of_its_own() -> None:
    seeds = {stream_seed(SEED, index, stream) for index in range(5) for stream in range(20)}
    seeds |= {stream_seed("ac" * 16, 0, 0), zone_seed(SEED), zone_seed("ac" * 16)}
    assert len(seeds) == 103
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert max(seeds) >= 2**63


def test_seeds_stay_what_they_are() -> None:
    assert stream_seed("00", 1, 2) == 0x642EA43253A378A5
    assert zone_seed("00") == 0xF76688CD38DFFD35


def test_jobs_fill_inputs_where_they_are() -> None:
    contents = timed_content(operator(), SHAPE)
    jobs = assign_content(contents, SEED, 7, (4096, 8192))
    assert jobs == [
        ContentJob(4096, contents[0], stream_seed(SEED, 0, 7)),
        ContentJob(8192, contents[1], stream_seed(SEED, 1, 7)),
    ]


def test_every_input_needs_a_place() -> None:
    with pytest.raises(ValueError, match="longer"):
        assign_content(timed_content(operator(), SHAPE), SEED, 7, (4096,))
