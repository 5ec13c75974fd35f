"""Everything that Redis does wrong is one error; what we do wrong is not."""

from importlib.resources import files

import pytest
import redis

from tests.workers.queue.samples import trace_job
from workers.errors import QueueUnavailable
from workers.queue import Dispatcher
from workers.queue.connection import script, translated


@pytest.mark.parametrize(
    "error",
    [
        redis.ConnectionError("gone"),
        redis.TimeoutError("slow"),
        redis.BusyLoadingError("loading"),
        redis.ReadOnlyError("a replica"),
        redis.OutOfMemoryError("full"),
        ConnectionResetError("reset"),
    ],
)
def test_a_server_that_does_not_serve_is_unavailable(error: Exception) -> None:
    with pytest.raises(QueueUnavailable, match=str(error)), translated():
        raise error


def test_a_command_of_ours_that_is_wrong_stays_what_it_is() -> None:
    with pytest.raises(redis.ResponseError), translated():
        raise redis.ResponseError("WRONGTYPE")


async def test_a_refused_password_is_told(redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url.replace("redis://:", "redis://:not-"))
    with pytest.raises(QueueUnavailable, match="password"):
        await dispatcher.submit(trace_job("job-1"))
    await dispatcher.close()


@pytest.mark.parametrize(
    "name",
    sorted(path.name.removesuffix(".lua") for path in files("workers.queue").iterdir() if path.name.endswith(".lua")),
)
def test_every_script_says_what_it_takes_and_returns(name: str) -> None:
    text = script(name)
    assert "-- ARGV" in text and "-- Returns" in text
