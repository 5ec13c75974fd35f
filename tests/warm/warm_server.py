"""The warm process of a run: imports what benches import, forks for each that is asked for, ends with the tests."""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
NEEDED = ("workers.main", "workers.executor.both", "workers.kernelbench")
"""What benches import, with all that those import."""
LOOK_S = 1.0
"""Seconds between two looks whether the tests still run."""
HIGH = 200
"""Descriptors from here on are nobody's: a fork's own are put there before they are put in their places."""


@dataclass
class Fork:
    """A fork that runs, and the line to the process that stands in for it."""

    process: int
    link: socket.socket
    watch: int


class Server:
    """Forks, and tells each stand-in how its fork ended."""

    def __init__(self) -> None:
        self._door = socket.socket(socket.AF_UNIX)
        unfinished = FOLDER / "door.new"
        unfinished.unlink(missing_ok=True)
        self._door.bind(str(unfinished))
        self._door.listen(64)
        unfinished.rename(FOLDER / "door")
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._door, selectors.EVENT_READ)
        self._forks: set[int] = set()

    def serve(self, owner: int) -> None:
        """Go on until the owner has ended."""
        while _runs(owner):
            for key, _ in self._selector.select(LOOK_S):
                if key.fileobj is self._door:
                    self._accept()
                else:
                    self._notice(key.data)
        for process in self._forks:
            _kill(process)

    def _accept(self) -> None:
        link, _ = self._door.accept()
        head, received, _, _ = socket.recv_fds(link, 4, 64)
        body = b""
        while head and len(body) < struct.unpack("I", head)[0]:
            body += link.recv(1 << 20)
        if not body:
            link.close()
            return
        process = os.fork()
        if process == 0:
            self._door.close()
            link.close()
            _become(json.loads(body), received)
        for descriptor in received:
            os.close(descriptor)
        fork = Fork(process, link, os.pidfd_open(process))
        self._forks.add(process)
        self._selector.register(link, selectors.EVENT_READ, fork)
        self._selector.register(fork.watch, selectors.EVENT_READ, fork)

    def _notice(self, fork: Fork) -> None:
        """Either its stand-in has hung up, or it has ended."""
        if fork.process not in self._forks:
            return
        ended, status = os.waitpid(fork.process, os.WNOHANG)
        if not ended:
            _kill(fork.process)
            _, status = os.waitpid(fork.process, 0)
        self._forks.remove(fork.process)
        self._selector.unregister(fork.link)
        self._selector.unregister(fork.watch)
        with contextlib.suppress(OSError):
            fork.link.sendall(struct.pack("i", status))
        fork.link.close()
        os.close(fork.watch)


def _runs(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _kill(process: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(process, signal.SIGKILL)


def _become(request: dict, received: list[int]) -> None:
    """Be the process that was asked for: its files, its environment, its folder, its module. Does not return."""
    status = 1
    try:
        os.setsid()
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, HIGH) for descriptor in received]
        for descriptor in received:
            os.close(descriptor)
        for descriptor, place in zip(high, request["descriptors"], strict=True):
            os.dup2(descriptor, place)
            os.close(descriptor)
        if os.environ.get("HOME") != request["environment"].get("HOME"):
            importlib.import_module("workers.sandbox.survey").strongest_isolation.cache_clear()
        os.chdir(request["folder"])
        os.execve = _exec
        _run(request["module"], request["arguments"], request["environment"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _exec(_: str, arguments: list[str], environment: dict[str, str]) -> None:
    """In place of becoming another Python, which would have to import all over: run its module here."""
    at = arguments.index("-m") + 1
    _run(arguments[at], arguments[at + 1 :], environment)
    raise SystemExit(0)


def _run(module: str, arguments: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _warmed() -> None:
    """Import and run once what benches need, and keep the garbage collector off it."""
    gc.disable()
    for name in NEEDED:
        importlib.import_module(name)
    warmth = importlib.import_module("workers.trace_job.warmup")
    warmth.warm()
    warmth.warm_drafts()
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    (FOLDER / "server").write_text(str(os.getpid()))
    server = Server()
    _warmed()
    server.serve(int((FOLDER / "owner").read_text()))
