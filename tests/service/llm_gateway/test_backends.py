"""Backends: limits are kept, a disabled one is not called, and the file may change at any time."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from service.errors import InvalidInput, NotFound
from service.llm import Completion, Manual, PermanentFailure, TransientFailure
from service.llm.manual import ManualOptions
from service.llm.options import BackendContext
from service.llm_gateway.backends import MOST_REST_S, BackendLimiter, BackendPool
from tests.service.inquiry import configure, endpoint

URL = "http://127.0.0.1:1"


async def nobody(key: str) -> Completion:
    raise AssertionError(key)


def limiter(**options: object) -> BackendLimiter:
    chosen = ManualOptions.model_validate({"kind": "manual", **options})
    return BackendLimiter("manual", chosen, None, Manual(BackendContext(Path())))


def limiters(folder: Path, text: str) -> BackendPool:
    configure(folder, text)
    return BackendPool(folder, nobody)


def rewrite(folder: Path, text: str) -> None:
    """Change the file so that its time says so."""
    path = folder / "backends.toml"
    path.write_text(text)
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))


async def test_no_more_than_allowed_at_once() -> None:
    tried, most = limiter(max_concurrency=3), 0

    async def call() -> None:
        nonlocal most
        async with tried.place(10):
            most = max(most, tried.status.under_way)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(call() for _ in range(10)))
    assert most == 3
    assert (tried.load, tried.status.under_way) == (0, 0)


@pytest.mark.parametrize("limit", [{"requests_per_minute": 1200}, {"tokens_per_minute": 12_000}])
async def test_calls_begin_no_faster_than_allowed(limit: dict[str, float]) -> None:
    tried = limiter(**limit)
    count = 1200 + 10
    started = time.monotonic()
    for _ in range(count):
        async with tried.place(10):
            continue
    assert time.monotonic() - started > 0.4, "after a minute's worth at once, twenty a second"


async def test_less_than_one_a_minute_and_more_tokens_than_allowed_still_pass() -> None:
    tried = limiter(requests_per_minute=0.5, tokens_per_minute=10)
    async with asyncio.timeout(1), tried.place(5000):
        assert tried.status.under_way == 1


async def test_what_is_parked_is_not_called() -> None:
    tried = limiter()
    tried.disable("no key")
    with pytest.raises(PermanentFailure, match="backend 'manual' is disabled: no key"):
        async with tried.place(1):
            raise AssertionError("called")
    assert tried.status.disabled_reason == "no key"


async def test_whoever_waits_when_it_is_parked_is_not_called_either() -> None:
    tried = limiter(max_concurrency=1)

    async def call() -> None:
        async with tried.place(1):
            await asyncio.sleep(0.02)
            tried.disable("no key")

    results = await asyncio.gather(call(), call(), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), PermanentFailure]


async def test_a_rest_is_waited_for_unless_it_is_too_long() -> None:
    tried = limiter()
    tried.rest(0.1)
    started = time.monotonic()
    async with tried.place(1):
        assert time.monotonic() - started >= 0.09
    tried.rest(MOST_REST_S + 60)
    with pytest.raises(TransientFailure, match="takes no calls for") as caught:
        async with tried.place(1):
            raise AssertionError("called")
    assert caught.value.retry_after_s == pytest.approx(MOST_REST_S + 60, abs=1)


async def test_without_a_file_there_is_manual(tmp_path: Path) -> None:
    found = BackendPool(tmp_path, nobody)
    assert [status.name for status in found.statuses()] == ["manual"]
    assert found.get("other") is None


async def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    found = limiters(tmp_path, endpoint(URL, "a") + endpoint(URL, "b").split("[prices")[0])
    kept, changed = found.get("a"), found.get("b")
    assert kept is not None
    assert changed is not None
    changed.disable("no such model")
    rewrite(tmp_path, endpoint(URL, "a") + endpoint(URL, "b", model="n").split("[prices")[0])
    assert found.get("a") is kept, "what is the same goes on as it is"
    assert found.get("b") is not changed
    assert [status.disabled_reason for status in found.statuses()] == [None, None, None]
    rewrite(tmp_path, endpoint(URL, "a"))
    assert found.get("b") is None
    await found.close()


async def test_a_file_that_became_wrong_changes_nothing(tmp_path: Path) -> None:
    found = limiters(tmp_path, endpoint(URL, "a"))
    rewrite(tmp_path, "[backends.a]\nkind = 'no'\n")
    assert [status.name for status in found.statuses()] == ["a", "manual"]
    await found.close()
    with pytest.raises(InvalidInput):
        BackendPool(tmp_path, nobody)


async def test_a_missing_key_parks_until_it_is_there(tmp_path: Path) -> None:
    found = limiters(tmp_path, endpoint(URL, "a", key_file="a.key"))
    assert found.statuses()[0].disabled_reason == "the key file a.key cannot be read"
    (tmp_path / "a.key").write_text("sk-1\n")
    assert found.enable("a").disabled_reason is None
    with pytest.raises(NotFound):
        found.enable("b")
    await found.close()


async def test_certificates_that_are_not_there_park(tmp_path: Path) -> None:
    found = limiters(tmp_path, endpoint(URL, "a", ca_file="/no/such/file"))
    assert found.statuses()[0].disabled_reason == "ca_file cannot be read: No such file or directory"
    await found.close()


async def test_the_least_busy_that_takes_calls_is_chosen(tmp_path: Path) -> None:
    found = limiters(tmp_path, endpoint(URL, "a") + endpoint(URL, "b").split("[prices")[0])
    first, second = found.get("a"), found.get("b")
    assert first is not None
    assert second is not None
    async with first.place(1):
        assert found.choose(("a", "b")) is second
        second.rest(10)
        assert found.choose(("a", "b")) is first
    second.disable("no money")
    assert found.choose(("a", "b")) is first
    first.disable("no key")
    with pytest.raises(PermanentFailure, match="a: no key; b: no money"):
        found.choose(("a", "b"))
    with pytest.raises(PermanentFailure, match="none of its backends is configured"):
        found.choose(("c",))
    await found.close()


async def test_a_status_shows_no_address_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_TEST_KEY", "sk-1234")
    found = limiters(tmp_path, endpoint(URL, "a", key_env="REEF_TEST_KEY"))
    status = found.statuses()[0]
    assert (status.kind, status.model, status.waits, status.under_way) == ("openai", "m", False, 0)
    assert status.price is not None
    assert "sk-1234" not in repr(status) + repr(vars(found))
    assert "127.0.0.1" not in repr(status)
    await found.close()
