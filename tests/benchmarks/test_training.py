"""Figures of episodes: steps that are done count, also if their episodes are cancelled at the limit."""

import asyncio
import time

import pytest

from benchmarks.training import _until_done, figures
from kernelreef.errors import Unavailable
from kernelreef.models import Speedup
from kernelreef.training import Turn

GAIN = Speedup(low=1.1, mid=1.2, high=1.3)


def test_steps_of_unfinished_episodes_count_and_steps_without_a_verdict_have_no_reward() -> None:
    good = Turn(text="", number=1, outcome="correct", reward=0.2, gain=GAIN)
    none = Turn(text="", number=1, reward=None)
    found = figures([[(1.0, good), (3.0, none)], [], [(2.0, good)]], wall_s=6.0)
    assert found["steps"] == 3 and found["steps_per_minute"] == 30.0 and found["step_p50_s"] == 2.0
    assert found["outcomes"] == {"correct": 2, "none": 1} and found["improved"] == 2 and found["reward_mean"] == 0.2


def test_a_single_step_is_no_figure() -> None:
    with pytest.raises(SystemExit, match="1 steps in 5 s are too few"):
        figures([[(1.0, Turn(text=""))]], wall_s=5.0)


async def test_episodes_that_are_late_are_cancelled_and_counted() -> None:
    ended: list[str] = []

    async def episode(seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ended.append("done")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    tasks = [asyncio.create_task(episode(seconds)) for seconds in (0.0, 60.0, 60.0)]
    assert await _until_done(tasks, [[]], time.monotonic(), 0.05) == 2
    assert ended == ["done", "cancelled", "cancelled"]


async def test_an_episode_that_the_service_fails_is_counted_and_a_mistake_of_ours_ends_the_run() -> None:
    async def failing(error: Exception) -> None:
        raise error

    tasks = [asyncio.create_task(failing(Unavailable("gone"))), asyncio.create_task(asyncio.sleep(0))]
    assert await _until_done(tasks, [[]], time.monotonic(), 5.0) == 1
    with pytest.raises(ValueError, match="no reward"):
        await _until_done([asyncio.create_task(failing(ValueError("no reward")))], [[]], time.monotonic(), 5.0)
