"""A real browser before a real service, each in a process of its own."""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from archive.store import Store, migrate
from tests.service.dashboard.hostile import Hostile, store_hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_S = 90
"""Seconds for a service to start; it takes five on a quiet machine."""


@dataclass
class Served:
    """A service in a process of its own, which may be ended and begun again at the same address."""

    folder: Path
    workers: int = 0
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    hostile: Hostile | None = field(default=None)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        settings = {"REEF_DATA_DIR": str(self.folder), "REEF_LOCAL_WORKERS": str(self.workers)}
        environment = {**os.environ, **settings, "REEF_LOG_LEVEL": "warning"}
        code = "import sys; from service.cli import main; sys.argv = ['reef', *sys.argv[1:]]; main()"
        command = [sys.executable, "-c", code, "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT)
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            assert self.process.poll() is None, "the service ended by itself"
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.address}/readyz").status_code == 200:
                    return
            time.sleep(0.1)
        raise AssertionError("the service did not become ready")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed; it is in the extra `dev`")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def served(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that judges by itself, with a hostile search in its archive."""
    service = Served(tmp_path_factory.mktemp("browser"), workers=1)
    # In a thread, because the browser's driver keeps a loop of its own in this one.
    with ThreadPoolExecutor(1) as aside:
        service.hostile = aside.submit(lambda: asyncio.run(_with_hostile(service.folder))).result()
    service.start()
    yield service
    service.stop()


async def _with_hostile(folder: Path) -> Hostile:
    url = f"sqlite+aiosqlite:///{folder / 'reef.db'}"
    await migrate(url)
    store = await Store.open(url)
    try:
        return await store_hostile(store, token=False)
    finally:
        await store.close()


@dataclass
class Watched:
    """A browser's page, and what went wrong in it."""

    page: "Page"
    faults: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def expect(self, *texts: str) -> None:
        """Take messages with one of these texts for granted from now on."""
        self.expected += texts

    @property
    def unexpected(self) -> list[str]:
        return [fault for fault in self.faults if not any(text in fault for text in self.expected)]


def watch(page: "Page", address: str) -> Watched:
    """Note what a page logs as an error, raises, or asks of anybody but the service."""
    watched = Watched(page)
    host = urlsplit(address).netloc
    page.on("console", lambda message: watched.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: watched.faults.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())

    def note(url: str) -> None:
        if urlsplit(url).netloc not in ("", host):
            watched.faults.append(f"asked {url}")

    page.on("request", lambda request: note(request.url))
    return watched


@pytest.fixture
def watched(chromium: "Browser", served: Served) -> Iterator[Watched]:
    """A page of a fresh browser profile; nothing may have gone wrong in it at the end."""
    context = chromium.new_context(base_url=served.address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(15_000)
    watched = watch(context.new_page(), served.address)
    yield watched
    context.close()
    assert watched.unexpected == []
