"""Kernels of ours on a card: values, exactness, speed."""

from collections.abc import Callable

import pytest
import torch

from tests.gpu.runner.card import on_card, opened
from tests.workers.assembler.plans import RMSNORM
from workers import driver
from workers.device_kernels import ContentJob, ContentKind, ContentSpec, zone_seed
from workers.device_kernels.kernels import RARE
from workers.inputs import DRAWS, draw
from workers.protocol import DTYPE_BYTES, Shape
from workers.runner.arena import Arena

pytestmark = pytest.mark.gpu
COUNT = 4096 * 4096
OUTSIDE_7 = 0.6617
"""Share of outliers, normal values times 16, that are farther than 7 from zero."""
AHEAD_US = 5000
"""A delay before those that are timed, during which a host that is cold still enqueues all of them."""
DELAYS = 5
FLOATS = ("bfloat16", "float16", "float32", "float64", "float8_e5m2", "float8_e4m3fn")
RANGES = {
    "int64": (-5, 128256),
    "int32": (0, 3),
    "int16": (-300, 300),
    "int8": (-7, 9),
    "uint8": (0, 255),
    "bool": (0, 2),
}


def spec(
    dtype: str, kind: ContentKind = ContentKind.NORMAL, low: float = -1e30, high: float = 1e30, count: int = COUNT
) -> ContentSpec:
    return ContentSpec(dtype, count, kind, low, high)


def values(arena: Arena, dtype: str, offset: int = 0, count: int = COUNT) -> torch.Tensor:
    return arena.tensor(offset, count * DTYPE_BYTES[dtype]).view(getattr(torch, dtype))


def measure_us(stream: int, enqueue: Callable[[], None], times: int = 5) -> float:
    start, stop = driver.make_event(), driver.make_event()
    enqueue()
    driver.record(start, stream)
    for _ in range(times):
        enqueue()
    driver.record(stop, stream)
    driver.synchronise(stream)
    return driver.elapsed_us(start, stop) / times


def moments(dtype: str) -> tuple[list[float], float, float]:
    with opened() as (_, support, stream):
        arena = Arena.allocate(COUNT * 16)
        size = COUNT * DTYPE_BYTES[dtype]
        limit = torch.finfo(getattr(torch, dtype)).max / 16
        content = spec(dtype, low=-limit, high=limit)
        support.fill_content(stream, [ContentJob(arena.pointer + size * index, content, index) for index in (0, 1)])
        driver.synchronise(stream)
        x, y = (values(arena, dtype, size * index).double() for index in (0, 1))
        near = x.clamp(-4, 4)
        found = [x.mean(), near.square().mean() - 1, (x * y).mean(), (x[1:] * x[:-1]).mean()]
        rare = RARE.value * float((x.abs() > 7).double().mean()) / OUTSIDE_7
        return [float(each) for each in found], float(near.pow(4).mean()) - 3, rare


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_values_have_the_moments_of_normal_ones(dtype: str) -> None:
    rounding = 0.03 if dtype.startswith("float8") else 0.0
    exact, fourth, rare = on_card(moments, dtype)
    for moment in exact:
        assert abs(moment) < 0.006 + rounding
    assert abs(fourth) < 0.06 + 10 * rounding
    assert 0.85 < rare < 1.15


def counts(dtype: str, low: int, high: int) -> tuple[int, int, int]:
    with opened() as (_, support, stream):
        arena = Arena.allocate(COUNT * 8)
        support.fill_content(stream, [ContentJob(arena.pointer, spec(dtype, ContentKind.INTEGERS, low, high), 9)])
        driver.synchronise(stream)
        found = torch.bincount(values(arena, dtype).long() - low, minlength=high - low)
        return len(found), int(found.min()), int(found.max())


@pytest.mark.parametrize("dtype", RANGES)
def test_integers_are_even(dtype: str) -> None:
    low, high = RANGES[dtype]
    length, least, most = on_card(counts, dtype, low, high)
    expected = COUNT / (high - low)
    assert length == high - low
    assert expected - 7 * expected**0.5 < least <= most < expected + 7 * expected**0.5


def places() -> dict[str, bool]:
    with opened() as (_, support, stream):
        arena = Arena.allocate(2**26)
        support.poison(stream, [(arena.pointer, arena.bytes)])
        content = spec("float32", count=100_003)
        jobs = [ContentJob(arena.pointer + offset, content, 5) for offset in (0, 2**24)]
        support.fill_content(stream, [*jobs, ContentJob(arena.pointer + 2**25, spec("float32", count=1000), 5)])
        driver.synchronise(stream)
        one, other, short = (arena.tensor(offset, 4 * 100_003) for offset in (0, 2**24, 2**25))
        return {
            "equal": torch.equal(one, other),
            "a prefix": torch.equal(one[:4000], short[:4000]),
            "all": not bool(one.view(torch.float32).isnan().any()),
            "no more": bool((arena.tensor(4 * 100_003, 4096) == 0xFF).all()),
        }


def test_equal_seeds_give_equal_values_anywhere() -> None:
    found = on_card(places)
    assert all(found.values()), found


def damage() -> dict[str, object]:
    with opened() as (_, support, stream):
        arena = Arena.allocate(2**20)
        zones, seed = [(13, 4099), (100_000, 65536), (200_001, 1), (300_000, 0)], zone_seed("ab")
        found: dict[str, object] = {}
        support.zones_fill(stream, arena.pointer, zones, seed)
        found["clean"] = support.zones_count(stream, arena.pointer, zones, seed)
        found["another seed"] = support.zones_count(stream, arena.pointer, zones, seed + 1) > 69_000
        memory = arena.tensor(0, 2**20)
        for place in (12, 13, 4111, 4112, 200_001):
            memory[place] ^= 1
        torch.cuda.synchronize()
        found["damaged"] = support.zones_count(stream, arena.pointer, zones, seed)
        memory.fill_(7)
        torch.cuda.synchronize()
        support.poison(stream, [(arena.pointer + 256, 1001), (arena.pointer + 4096, 16), (arena.pointer + 8192, 1)])
        driver.synchronise(stream)
        found["poisoned"] = int((memory == 0xFF).sum())
        return found


def test_damage_to_red_zones_is_counted_and_poison_is_exact() -> None:
    assert on_card(damage) == {"clean": 0, "another seed": True, "damaged": 3, "poisoned": 1018}


def speeds() -> dict[str, float]:
    with opened() as (card, support, stream):
        arena = Arena.allocate(2 * 2**30)
        jobs = [ContentJob(arena.pointer + 2 * COUNT * index, spec("bfloat16"), index) for index in range(16)]
        found = {
            "fill": 16 * 2 * COUNT / measure_us(stream, lambda: support.fill_content(stream, jobs)) / 1e6,
            "poison": 2 * 2**30 / measure_us(stream, lambda: support.poison(stream, [(arena.pointer, 2**31)])) / 1e6,
            "flush": 2 * card.l2_bytes / measure_us(stream, lambda: support.flush(stream)) / 1e6,
        }
        return found


def test_refilling_is_as_fast_as_memory_nearly() -> None:
    """Terabytes a second."""
    found = on_card(speeds)
    assert found["fill"] > 1.5 and found["poison"] > 3 and found["flush"] > 2, found


def delays() -> tuple[dict[int, float], float]:
    with opened() as (_, support, stream):
        found = {}
        for asked_us in (10, 200):
            start, stop = driver.make_event(), driver.make_event()
            support.delay(stream, AHEAD_US)
            driver.record(start, stream)
            for _ in range(DELAYS):
                support.delay(stream, asked_us)
            driver.record(stop, stream)
            driver.synchronise(stream)
            found[asked_us] = driver.elapsed_us(start, stop) / DELAYS
        return found, support.delays(1)[0].clock_mhz


def test_a_delay_is_as_long_as_was_asked() -> None:
    """And little longer: what is more than was asked is a launch, which takes a short one as long as a long one."""
    found, clock_mhz = on_card(delays)
    assert all(found_us >= asked_us for asked_us, found_us in found.items()), found
    assert abs(found[200] - found[10] - 190) < 10, found
    assert 300 < clock_mhz < 3000


def draws(name: str) -> list[bytes]:
    with opened():
        drawn = draw(RMSNORM, Shape(dims={"M": 64, "N": 48}), name, b"s", device=torch.device("cuda", 0))
        return [tensor.view(torch.int16).cpu().numpy().tobytes() for tensor in drawn]


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_equal_in_every_process(name: str) -> None:
    assert on_card(draws, name) == on_card(draws, name)
