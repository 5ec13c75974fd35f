"""A worker joins a running service with a token: over TLS, and from a network of its own where there can be one."""

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.journeys.small import small_request
from workers.queue import DISMISSED

WAIT_S = 240.0
SPACE, OUTSIDE, INSIDE = "reef-join", "10.213.7.1", "10.213.7.2"
REEF = (str(Path(sys.executable).with_name("reef")),)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def certificate(folder: Path, host: str) -> Path:
    """A key and a certificate for a host, in one file."""
    name = f"IP:{host}" if host[0].isdigit() else f"DNS:{host}"
    made = folder / "service.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=reef"]
    command += ["-addext", f"subjectAltName={name}", "-keyout", str(folder / "key.pem"), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made


@dataclass
class Running:
    """A service with tokens, and how to ask it as an admin."""

    url: str
    data: Path
    environment: dict[str, str]
    joiner: str
    admin: httpx.Client

    def workers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin.get("/workers").json()["items"]
        return found

    def until(self, what: str, seen: Any) -> Any:
        """Ask until something is seen."""
        give_up = time.monotonic() + WAIT_S
        while time.monotonic() < give_up:
            with contextlib.suppress(httpx.TransportError):
                if found := seen():
                    return found
            time.sleep(0.2)
        raise AssertionError(f"{what} did not come: {(self.data / 'serve.log').read_text()[-2000:]}")


def token(environment: dict[str, str], name: str, *scopes: str) -> str:
    command = [*REEF, "token", "create", name, "--json", *(part for scope in scopes for part in ("--scope", scope))]
    made = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    text: str = json.loads(made.stdout)["token"]
    return text


@contextlib.contextmanager
def serving(data: Path, host: str, *, queue: str | None = None) -> Iterator[Running]:
    """A real service over TLS, without workers of its own."""
    pem, port = certificate(data, host), free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    environment |= {"REEF_DATA_DIR": str(data / "service"), "REEF_LOCAL_WORKERS": "0", "REEF_LOG_LEVEL": "debug"}
    environment |= {"REEF_TLS_CERTIFICATE": str(pem), "REEF_TLS_KEY": str(data / "key.pem")}
    environment |= {} if queue is None else {"REEF_WORKER_REDIS_URL": queue, "REEF_REDIS_CA": str(pem)}
    admin, joiner = token(environment, "admin", "read", "submit", "steer", "admin"), token(environment, "rig", "worker")
    bound = host if host[0].isdigit() else "127.0.0.1"
    command = [*REEF, "serve", "--host", bound, "--port", str(port)]
    with (data / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"https://{host}:{port}"
    context = ssl.create_default_context(cafile=str(pem))
    headers = {"Authorization": f"Bearer {admin}"}
    try:
        with httpx.Client(base_url=f"{url}/api/v1", headers=headers, verify=context, timeout=30.0) as client:
            running = Running(url, data, environment | {"SSL_CERT_FILE": str(pem)}, joiner, client)
            running.until("the service", lambda: client.get("/workers").status_code == 200)
            yield running
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0


@contextlib.contextmanager
def working(running: Running, *options: str, inside: tuple[str, ...] = ()) -> Iterator["subprocess.Popen[bytes]"]:
    """`reef worker --join` with a data folder of its own."""
    environment = {**running.environment, "REEF_DATA_DIR": str(running.data / "rig"), "REEF_TOKEN": running.joiner}
    command = [*inside, *REEF, "worker", "--join", running.url, *options]
    with (running.data / "rig.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(WAIT_S)


def test_a_worker_joins_over_tls_works_once_it_is_trusted_and_leaves_when_drained(tmp_path: Path) -> None:
    with serving(tmp_path, "localhost") as running:
        body = {"operator": small_request(), "devices": ["model:sm_90"], "evaluations": 1}
        search = running.admin.post("/searches", json=body).json()["id"]
        with working(running, "--trace", "1", "--device", "model:sm_90") as process:
            [worker] = running.until("the worker", lambda: [one for one in running.workers() if one["jail"]])
            assert (worker["state"], worker["trusted"], worker["kinds"]) == ("active", False, ["measure", "trace"])
            assert worker["versions"]["triton"] and worker["token"] and worker["target"] == "sm_90"
            assert running.admin.get(f"/searches/{search}").json()["state"] == "preparing", "nobody is trusted yet"
            assert running.admin.post(f"/workers/{worker['id']}/trust").json()["trusted"]
            ended = ("done", "failed", "stopped")
            state = running.until(
                "the end of the search",
                lambda: (now := running.admin.get(f"/searches/{search}").json()["state"]) in ended and now,
            )
            assert state == "done"
            assert running.admin.get(f"/searches/{search}/elites").json()["items"]
            running.until("its counts", lambda: running.workers()[0]["done"] >= 3)
            assert running.admin.post(f"/workers/{worker['id']}/drain").json()["state"] == "draining"
            assert process.wait(WAIT_S) == DISMISSED
        said = (tmp_path / "rig.log").read_text()
        assert "drained" in said
        told = said + (tmp_path / "serve.log").read_text()
        shown = running.admin.headers["Authorization"].removeprefix("Bearer ")
        assert running.joiner not in told and shown not in told
        assert re.findall(r"rediss?://[^/\s]*:[^@/\s]{8,}@", told) == [], "nor the password of the queue"
        with working(running, "--trace", "1", "--target", "sm_90") as again:
            others = running.until("a new id", lambda: [one for one in running.workers() if one["id"] != worker["id"]])
            assert others[0]["trusted"], "an admin vouched for this machine"
            assert running.admin.post(f"/workers/{others[0]['id']}/revoke", json={"reason": "sold"}).status_code == 200
            assert again.wait(WAIT_S) == DISMISSED


def test_a_wrong_token_is_told_and_not_tried_again(tmp_path: Path) -> None:
    with serving(tmp_path, "localhost") as running:
        running.joiner = "reef_nobody"
        with working(running, "--trace", "1", "--target", "sm_90") as process:
            assert process.wait(WAIT_S) == DISMISSED
        assert "refuses" in (tmp_path / "rig.log").read_text()


@pytest.fixture
def namespace() -> Iterator[tuple[str, ...]]:
    """A network of its own, linked to ours; commands that begin with what is yielded run in it."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        ip("netns", "add", SPACE)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine lets us make no network namespace: {error}")
    try:
        ip("link", "add", "reef-out", "type", "veth", "peer", "name", "reef-in")
        ip("link", "set", "reef-in", "netns", SPACE)
        ip("addr", "add", f"{OUTSIDE}/30", "dev", "reef-out")
        ip("link", "set", "reef-out", "up")
        for words in (("addr", "add", f"{INSIDE}/30", "dev", "reef-in"), ("link", "set", "reef-in", "up")):
            ip("-n", SPACE, *words)
        ip("-n", SPACE, "link", "set", "lo", "up")
        yield ("ip", "netns", "exec", SPACE)
    finally:
        subprocess.run(["ip", "link", "del", "reef-out"], capture_output=True)
        ip("netns", "del", SPACE)


@pytest.mark.slow
def test_a_worker_in_another_network_joins_and_outlasts_a_cut(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    with (
        serving(tmp_path, OUTSIDE, queue=f"rediss://{OUTSIDE}:{free_port()}") as running,
        working(running, "--device", "model:sm_90", inside=namespace),
    ):
        [worker] = running.until("the worker", lambda: [one for one in running.workers() if one["jail"]])
        assert worker["device"] == "model:sm_90"
        for state in ("down", "up"):
            subprocess.run(["ip", "link", "set", "reef-out", state], check=True)
            time.sleep(1.0)
        before = running.workers()[0]["seen"]
        running.until("a sign of life", lambda: running.workers()[0]["seen"] > before)
        assert [one["id"] for one in running.workers()] == [worker["id"]]
