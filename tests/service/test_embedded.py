"""The embedded server keeps its data, its password and its lock, and never outlives the process that started it."""

import asyncio
import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import psutil
import pytest
import redis
from redis.asyncio import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from service import embedded
from service.embedded import EmbeddedServer, server_program
from service.errors import Conflict, InvalidInput, Unavailable
from service.security.certificates import certified
from service.tasks import end
from tests.service.security.test_certificates import made

MOST_STEPS = 60
"""Turns of an event loop, in which a server that is there has answered and the line to it is closed."""
OWNER = """
import asyncio, sys
from pathlib import Path
from service.embedded import EmbeddedServer

async def main():
    async with EmbeddedServer(Path(sys.argv[1])) as server:
        print(server.pid, server.url, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def gone(pid: int, within_s: float = 20.0) -> bool:
    end = time.monotonic() + within_s
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def test_it_answers_with_its_password_and_with_no_other(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        wrong = redis.Redis(
            port=client.connection_pool.connection_kwargs["port"], password="guess", retry=Retry(NoBackoff(), 0)
        )
        with wrong, pytest.raises(AuthenticationError):
            wrong.ping()
        assert server.pid is not None and not gone(server.pid, within_s=0)
    assert gone(server.pid)


async def test_only_its_user_can_read_what_it_keeps(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    async with EmbeddedServer(folder) as server:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "users.acl").stat().st_mode) == 0o600
        password = server.url.split(":")[2].split("@")[0]
        assert password not in (folder / "users.acl").read_text()
        assert server.pid is not None
        assert not any(password in part for part in psutil.Process(server.pid).cmdline())


async def test_a_stopped_server_leaves_its_data_to_the_next(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("kept", "1")
    async with EmbeddedServer(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.get("kept") == b"1"


async def test_a_killed_server_comes_back_at_the_same_address_with_its_streams(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            client.xgroup_create("stream", "group", "0", mkstream=True)
            client.xadd("stream", {"job": "1"})
            client.xreadgroup("group", "worker", {"stream": ">"})
        assert server.pid is not None
        killed = server.pid
        os.kill(killed, signal.SIGKILL)
        while server.pid == killed:
            await asyncio.sleep(0.02)
        with redis.Redis.from_url(server.url) as client:
            while not answers(client):
                await asyncio.sleep(0.02)
            assert client.xpending("stream", "group")["pending"] == 1


async def test_who_is_cancelled_while_it_waits_for_the_server_leaves_no_line_to_it(tmp_path: Path) -> None:
    """Wherever that happens: a line that is found later, by the garbage collector, is a warning to somebody else."""
    async with EmbeddedServer(tmp_path) as server:
        assert server._process is not None
        with warnings.catch_warnings(record=True) as left:
            warnings.simplefilter("always")
            done = 0
            gc.freeze()  # All that was there before is none of its business, and would be looked through every time.
            for steps in range(MOST_STEPS):
                waiting = asyncio.create_task(server._answers(server._process))
                for _ in range(steps):
                    await asyncio.sleep(0)
                done += waiting.done()
                await end([waiting])
                gc.collect()
            gc.unfreeze()
        assert [str(warning.message) for warning in left] == []
        assert 0 < done < MOST_STEPS


async def test_what_it_answered_is_in_its_log(tmp_path: Path) -> None:
    """A write that is answered first is lost with a server that is killed in between: long under a busy disk."""
    async with EmbeddedServer(tmp_path) as server:
        [path] = tmp_path.glob("appendonlydir/*.incr.aof")
        until, late, written = time.monotonic() + 2.5, 0, path.stat().st_size
        with redis.Redis.from_url(server.url) as client:
            while time.monotonic() < until:
                client.rpush("answered", "x")
                before, written = written, path.stat().st_size
                late += written == before
    assert late == 0


async def test_its_log_gets_to_the_disk_every_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = asyncio.Queue[str]()
    loop = asyncio.get_running_loop()

    def sync(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        loop.call_soon_threadsafe(synced.put_nowait, path)
        raise OSError("a disk that is full")

    monkeypatch.setattr(embedded, "SYNC_S", 0.05)
    monkeypatch.setattr(os, "fdatasync", sync)
    async with EmbeddedServer(tmp_path):
        [path] = tmp_path.glob("appendonlydir/*.incr.aof")
        for _ in range(3):  # one that fails is not the last
            assert await asyncio.wait_for(synced.get(), 10.0) == str(path)


def answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except (redis.ConnectionError, OSError):
        return False


def test_it_ends_with_a_killed_owner_and_the_next_one_takes_over(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        pid, url = owner.stdout.readline().split()
        with redis.Redis.from_url(url) as client:
            client.set("kept", "1")
    finally:
        owner.kill()
        owner.communicate()

    async def take_over() -> bytes | None:
        async with EmbeddedServer(tmp_path) as server:
            with redis.Redis.from_url(server.url) as client:
                return client.get("kept")

    assert asyncio.run(take_over()) == b"1"
    assert gone(int(pid))


async def test_one_folder_serves_one_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LOCK_S", 0.1)
    async with EmbeddedServer(tmp_path):
        with pytest.raises(Conflict, match="REEF_DATA_DIR"):
            async with EmbeddedServer(tmp_path):
                pytest.fail("two servers write one log")


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").write_text("a file where a folder should be")
    with pytest.raises(Unavailable, match=r"did not start: .*append ?only"):
        async with EmbeddedServer(tmp_path):
            pytest.fail("it started on a broken folder")


async def test_a_program_that_is_no_server_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="did not start"):
        async with EmbeddedServer(tmp_path, program=Path("/bin/true")):
            pytest.fail("it started")


def test_a_server_is_found_here() -> None:
    assert os.access(server_program(), os.X_OK)


async def test_workers_elsewhere_find_it_behind_tls_and_need_a_password(tmp_path: Path) -> None:
    certificate, key = made(tmp_path)
    port = embedded._free_port()
    tls = certified(certificate, key)
    async with EmbeddedServer(tmp_path / "redis", public=f"rediss://reef.example:{port}", tls=tls) as server:
        inner = int(server.url.rpartition(":")[2].partition("/")[0])
        assert inner != port
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", inner), timeout=5)
        trusting = {"ssl": True, "ssl_ca_certs": str(certificate), "socket_timeout": 10}
        for address in ("127.0.0.1", "localhost"):
            async with Redis(host=address, port=port, **trusting) as outside:
                with pytest.raises(AuthenticationError):
                    await outside.ping()
        password = server.url.partition(":")[2].partition(":")[2].partition("@")[0]
        async with Redis(host="localhost", port=port, password=password, **trusting) as ours:
            assert await ours.set("key", "x" * (1 << 20)) and await ours.strlen("key") == 1 << 20
            limit = await ours.config_get("proto-max-bulk-len")
            assert limit in ({"proto-max-bulk-len": str(64 << 20)}, {b"proto-max-bulk-len": str(64 << 20).encode()})
        async with Redis(host="localhost", port=port, socket_timeout=5) as plain:
            with pytest.raises(RedisError):
                await plain.ping()
        with pytest.raises(InvalidInput, match=f"cannot listen on port {port}"):
            async with EmbeddedServer(tmp_path / "other", public=f"rediss://reef.example:{port}", tls=tls):
                pytest.fail("it started")


async def test_on_this_machine_its_port_may_be_chosen(tmp_path: Path) -> None:
    port = embedded._free_port()
    async with EmbeddedServer(tmp_path, public=f"redis://127.0.0.1:{port}") as server:
        assert f":{port}/" in server.url


@pytest.mark.parametrize("address", ["rediss://reef.example:6380", "redis://reef.example:6380", "redis://0.0.0.0:6380"])
def test_an_address_that_it_cannot_serve_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidInput, match="by TLS only") as caught:
        EmbeddedServer(tmp_path, public=address)
    assert caught.value.field == "worker_redis_url"
