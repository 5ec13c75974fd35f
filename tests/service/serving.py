"""`reef serve` in a process of its own, which can be stopped and started again at the same address."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

REEF = (sys.executable, "-c", "from service.cli import main; main()")


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """A service over a data folder. Use as a context; it must end cleanly when it is asked to."""

    def __init__(self, data: Path, *, workers: int = 0) -> None:
        self._port = free_port()
        self._data = data
        self._workers = workers
        self._log = data / "serve.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> "Served":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("REEF_")},
            "REEF_DATA_DIR": str(self._data),
            "REEF_LOCAL_WORKERS": str(self._workers),
            "REEF_LOG_LEVEL": "warning",
        }
        self._data.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*REEF, "serve", "--port", str(self._port)], env=environment, stderr=log)
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            assert self._process.poll() is None, self.log
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            time.sleep(0.1)
        self._process.kill()
        raise AssertionError("the service did not become ready")

    def stop(self) -> None:
        """Ask it to end."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) == 0, self.log
        assert "Traceback" not in self.log, self.log
