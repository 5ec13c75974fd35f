"""Every command of `docker-compose.yml` and of the units runs as it stands there, against real servers of this machine.

What differs from the containers: addresses and ports of this machine, its programs in place of theirs, and one user.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
import yaml

from service.embedded import server_program
from tests.journeys.small import small_request
from tests.journeys.test_joining import free_port
from tests.postgres import PostgresServer, find_binaries
from workers.options import parse

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
UNITS = {path.stem.rstrip("@"): path.read_text() for path in (ROOT / "deploy").glob("*.service")}
PROGRAMS = {
    "python": [sys.executable],
    "reef": [sys.executable, "-c", "from service.cli import main; main()"],
    "valkey-server": [str(server_program())],
}
STARTED_S = 90.0


@dataclass
class Machine:
    """Where the parts run here: a folder for what they leave, and what stands in for the containers' network."""

    folder: Path
    environment: dict[str, str]
    port: int
    queue: int

    def command(self, words: list[str]) -> list[str]:
        """A command of a container, with this machine's programs, secrets and ports."""
        program, *rest = words
        places = {"/run/secrets": str(self.folder / "secrets"), ":8700": f":{self.port}"}
        for there, here in places.items():
            rest = [word.replace(there, here) for word in rest]
        return [*PROGRAMS[program], *rest]

    def environment_of(self, name: str) -> dict[str, str]:
        """What a container is told, defaults of variables filled in."""
        told = COMPOSE[name].get("environment", {})
        return self.environment | {key: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for key, value in told.items()}

    def run(self, words: list[str], name: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        environment = self.environment_of(name)
        return subprocess.run(
            self.command(words), env=environment, cwd=self.folder, capture_output=True, text=True, timeout=STARTED_S
        )

    @contextmanager
    def running(self, name: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A container's command, until it is asked to end; it must do so within the time that it is given there."""
        grace_s = float(COMPOSE[name].get("stop_grace_period", "10s").rstrip("s"))
        with (self.folder / f"{name}.log").open("wb") as log:
            command, environment = self.command(COMPOSE[name]["command"]), self.environment_of(name)
            process = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(grace_s) == 0, self.log(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")


@pytest.fixture
def machine(tmp_path: Path, postgres: PostgresServer) -> Machine:
    """Secrets as they are made once, and addresses in place of those in them."""
    subprocess.run([ROOT / "deploy" / "secrets.sh", tmp_path / "secrets"], check=True)
    secrets, queue = tmp_path / "secrets", free_port()
    configuration = secrets / "valkey.conf"
    configuration.chmod(0o600)
    text = configuration.read_text().replace("dir /data", f"dir {tmp_path}")
    configuration.write_text(f"{text}bind 127.0.0.1\nport {queue}\n")
    password, port = (secrets / "redis_password").read_text(), free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    environment |= {
        "REEF_DATABASE_URL": postgres.url(postgres.create_database()),
        "REEF_REDIS_URL": f"redis://:{password}@127.0.0.1:{queue}/0",
        "REEF_DATA_DIR": str(tmp_path / "data"),
        "REEF_PORT": str(port),
    }
    return Machine(tmp_path, environment, port, queue)


def until(what: str, seen: Callable[[], Any]) -> Any:
    """Ask until something is seen."""
    give_up = time.monotonic() + STARTED_S
    while time.monotonic() < give_up:
        try:
            if found := seen():
                return found
        except (httpx.TransportError, redis.ConnectionError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come")


def test_the_parts_come_up_in_their_order_work_together_and_end_when_asked(machine: Machine) -> None:
    password = (machine.folder / "secrets" / "redis_password").read_text()
    with ExitStack() as stack:
        stack.enter_context(machine.running("redis"))
        queue = stack.enter_context(redis.Redis(port=machine.queue, password=password))
        until("the queue", queue.ping)
        for _ in range(2):
            migrated = machine.run(COMPOSE["migrate"]["command"], "migrate")
            assert migrated.returncode == 0, migrated.stderr
        service = stack.enter_context(machine.running("service"))
        health = COMPOSE["service"]["healthcheck"]["test"]
        assert health[0] == "CMD"
        until("the service", lambda: machine.run(health[1:], "service").returncode == 0 or service.poll())
        assert service.poll() is None, machine.log("service")
        [token] = re.findall(r"reef_\w+", machine.log("service"))
        with httpx.Client(base_url=f"http://127.0.0.1:{machine.port}/api/v1") as client:
            assert client.get("/workers").status_code == 401
            client.headers["Authorization"] = f"Bearer {token}"
            body = {"operator": small_request(), "devices": ["model:sm_90"], "evaluations": 1}
            search = client.post("/searches", json=body).json()["id"]
            for name in ("trace-worker", "measure-worker"):
                stack.enter_context(machine.running(name))
            until("its end", lambda: client.get(f"/searches/{search}").json()["state"] == "done")
            seen = client.get("/workers").json()["items"]
            assert {(each["target"], each["device"], each["trusted"]) for each in seen} == {
                ("sm_90", None, True),
                (None, "model:sm_90", True),
            }
    assert "Traceback" not in machine.log("service")


def test_a_service_that_answers_nothing_is_not_healthy(machine: Machine) -> None:
    assert machine.run(COMPOSE["service"]["healthcheck"]["test"][1:], "service").returncode != 0


def test_the_database_is_asked_by_a_program_that_it_brings() -> None:
    kind, program, *arguments = COMPOSE["db"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "pg_isready")
    binaries = find_binaries()
    found = str(binaries / program) if binaries else shutil.which(program)
    if found is None:
        pytest.skip("no pg_isready here")
    asked = subprocess.run([found, *arguments, "-h", "127.0.0.1", "-p", "1"], capture_output=True, text=True)
    assert "no response" in asked.stdout, "it understands what it is told, and nobody is there"


def test_units_say_the_same_as_the_containers() -> None:
    told = re.findall(r"^ExecStart(?:Pre)?=/opt/kernelreef/bin/(.*)$", UNITS["kernelreef"], flags=re.MULTILINE)
    assert [shlex.split(each) for each in told] == [COMPOSE["migrate"]["command"], COMPOSE["service"]["command"]]


@pytest.mark.parametrize("work", re.findall(r"^#\s+REEF_WORK=(.*)$", UNITS["kernelreef-worker"], flags=re.MULTILINE))
def test_a_unit_s_worker_understands_what_its_page_proposes(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [told] = re.findall(r"^ExecStart=(.*)$", UNITS["kernelreef-worker"], flags=re.MULTILINE)
    assert told == "/opt/kernelreef/bin/python -m workers run $REEF_WORK"
    monkeypatch.setenv("REEF_TOKEN", "reef_token")
    options = parse(["run", *shlex.split(work)], "")
    assert (options.token, options.target) == ("reef_token", "sm_90")
