"""What is installed: a wheel that is complete and works anywhere, two halves that need not each other's libraries,
and containers whose commands exist."""

import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from redis import AuthenticationError, Redis

import archive
import service
import workers
from service.cli import app as command_line
from service.embedded import server_program
from service.settings import Settings

ROOT = Path(__file__).parent.parent
PACKAGES = ("kernelreef", "archive", "workers", "service", "operators", "migrations")
SERVICE_ONLY = ("sqlalchemy", "alembic", "fastapi", "uvicorn", "httpx", "typer", "rich", "pydantic_settings", "uuid6")
"""Libraries that come with the extra `service`; a worker has none of them."""
WORKER_ONLY = ("torch", "triton")
"""Libraries that come with the extra `worker`; a coordinator has none of them."""
FRONT_DOOR = ("workers.main", "workers.queue", "workers.protocol", "workers.targets")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release would build it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel is unpacked, away from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archived:
        archived.extractall(folder)
    return folder


def run(installed: Path, folder: Path, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run code against the unpacked wheel, in a folder that holds nothing of ours."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "REEF_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_wheel_holds_every_file_of_every_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archived:
        held = {name for name in archived.namelist() if name.split("/")[0] in PACKAGES}
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    expected = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    assert expected - held == set()
    assert {Path(name).suffix for name in held} >= {".py", ".toml", ".mako", ".lua", ".jinja"}


def test_the_command_works_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "from service.cli import main; main()", "operators", "--json")
    assert done.returncode == 0, done.stderr
    assert "rmsnorm" in [operator["name"] for operator in json.loads(done.stdout)]
    done = run(installed, tmp_path, "import service; print(service.__file__)")
    assert done.stdout.startswith(str(installed))


def test_the_archive_migrates_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "from service.cli import main; main()", "migrate")
    assert done.returncode == 0, done.stderr
    assert Settings(data_dir=tmp_path / "data").database.endswith("data/reef.db")
    assert (tmp_path / "data" / "reef.db").exists()


def test_the_coordinator_needs_no_torch(installed: Path, tmp_path: Path) -> None:
    modules = [*modules_of(archive), *modules_of(service), *FRONT_DOOR]
    assert run(installed, tmp_path, importing(modules, without=WORKER_ONLY)).stderr.splitlines()[-1:] == []


def test_a_worker_needs_no_database_and_no_web_framework(installed: Path, tmp_path: Path) -> None:
    optional = ("__main__", "helion_kernels")  # Helion brings rich along.
    modules = [name for name in modules_of(workers) if not name.endswith(optional)]
    assert run(installed, tmp_path, importing(modules, without=SERVICE_ONLY)).stderr.splitlines()[-1:] == []


def test_the_front_door_and_the_lease_loop_need_neither(installed: Path, tmp_path: Path) -> None:
    code = importing(FRONT_DOOR, without=SERVICE_ONLY + WORKER_ONLY)
    assert run(installed, tmp_path, code).stderr.splitlines()[-1:] == []


def modules_of(package: Any) -> Iterator[str]:
    yield package.__name__
    yield from (found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))


def importing(modules: Sequence[str], without: Sequence[str]) -> str:
    """Code that imports modules on a machine that lacks some libraries."""
    return (
        f"import importlib, sys\nfor name in {list(without)!r}: sys.modules[name] = None\n"
        f"for name in {list(modules)!r}: importlib.import_module(name)"
    )


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def ours() -> dict[str, dict[str, Any]]:
    """The services that run our code, by name."""
    return {name: each for name, each in compose()["services"].items() if "build" in each}


def test_compose_describes_every_part() -> None:
    assert set(compose()["services"]) == {"db", "redis", "migrate", "service", "trace-worker", "measure-worker"}
    for name, each in compose()["services"].items():
        for other, condition in each.get("depends_on", {}).items():
            awaited = compose()["services"][other]
            healthy = condition["condition"] == "service_healthy"
            assert ("healthcheck" in awaited) if healthy else (other == "migrate"), f"{name} waits for {other}"


@pytest.mark.parametrize("name", ours())
def test_every_command_in_compose_exists(name: str) -> None:
    program, *arguments = ours()[name]["command"]
    if program == "reef":
        assert arguments[0] in typer.main.get_command(command_line).commands
        return
    assert [program, *arguments[:3]] == ["python", "-m", "workers", "run"]
    options = subprocess.run(
        [sys.executable, "-m", "workers", "run", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert options.returncode == 0
    for option in (argument for argument in arguments[3:] if argument.startswith("--")):
        assert option in options.stdout


@pytest.mark.parametrize("name", ours())
def test_every_container_is_built_from_a_file_that_exists(name: str) -> None:
    build = ours()[name]["build"]
    lines = (ROOT / build["context"] / build["dockerfile"]).read_text().splitlines()
    for line in (line for line in lines if line.startswith("COPY ") and "--from=" not in line):
        assert [source for source in shlex.split(line)[1:-1] if not (ROOT / source).exists()] == []
    assert any(line.startswith("USER ") for line in lines)


@pytest.mark.parametrize("name", ours())
def test_every_variable_in_compose_is_a_setting(name: str) -> None:
    given = {key for key in ours()[name].get("environment", {}) if key.startswith("REEF_")}
    assert given <= {f"REEF_{field.upper()}" for field in Settings.model_fields}


@pytest.mark.parametrize("name", compose()["services"])
def test_containers_can_do_little(name: str) -> None:
    container = compose()["services"][name]
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert "build" in container or container["user"] not in ("root", "0")


@pytest.mark.parametrize("name", compose()["services"])
def test_no_secret_is_in_an_environment_or_on_a_command_line(name: str) -> None:
    container = compose()["services"][name]
    said = [*container.get("environment", {}), *container.get("command", [])]
    assert [word for word in said if re.search("(?i)password(?!_file)|token|_url", word)] == []


def test_only_the_service_is_published_and_on_loopback_unless_somebody_says_otherwise() -> None:
    published = {name: each["ports"] for name, each in compose()["services"].items() if "ports" in each}
    assert published == {"service": ["${REEF_PUBLISH:-127.0.0.1:8700}:8700"]}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """What `deploy/secrets.sh` makes."""
    subprocess.run([ROOT / "deploy" / "secrets.sh", tmp_path / "secrets"], check=True)
    return tmp_path / "secrets"


def test_every_secret_is_made_once_and_stays_shut_in(secrets: Path) -> None:
    named = {name: each["file"] for name, each in compose()["secrets"].items()}
    assert named == {name: f"./secrets/{name}" for name in named}
    assert {path.name for path in secrets.iterdir()} == set(named)
    used = {name for each in compose()["services"].values() for name in each.get("secrets", [])}
    assert used == set(named)
    assert secrets.stat().st_mode & 0o077 == 0
    again = subprocess.run([ROOT / "deploy" / "secrets.sh", secrets], capture_output=True, text=True)
    assert (again.returncode, "nothing was changed" in again.stderr) == (1, True)


def test_secrets_are_settings(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REEF_DATABASE_URL", raising=False)
    settings = Settings(_secrets_dir=secrets)
    password = (secrets / "postgres_password").read_text()
    assert settings.database_url == f"postgresql+psycopg://reef:{password}@db:5432/reef"
    assert settings.redis_url == f"redis://:{(secrets / 'redis_password').read_text()}@redis:6379/0"
    assert password not in repr(settings)


@contextmanager
def serving(configuration: Path, socket: Path) -> Iterator[None]:
    """A queue with a configuration of its own."""
    with subprocess.Popen([server_program(), configuration], stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 20
            while not socket.exists():
                assert process.poll() is None, "the server did not start"
                assert time.monotonic() < until
                time.sleep(0.02)
            yield
        finally:
            process.terminate()


def test_the_queue_takes_its_configuration(secrets: Path, tmp_path: Path) -> None:
    configuration = secrets / "valkey.conf"
    text = configuration.read_text().replace("dir /data", f"dir {tmp_path}")
    own = tmp_path / "own.conf"
    own.write_text(f"{text}port 0\nunixsocket {tmp_path / 'queue.sock'}\n")
    password = (secrets / "redis_password").read_text()
    with serving(own, tmp_path / "queue.sock"):
        with pytest.raises(AuthenticationError):
            Redis(unix_socket_path=str(tmp_path / "queue.sock")).ping()
        with Redis(unix_socket_path=str(tmp_path / "queue.sock"), password=password) as redis:
            assert redis.config_get("appendonly") == {"appendonly": "yes"}


UNITS = sorted((ROOT / "deploy").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_start_what_exists(unit: Path) -> None:
    lines = [line.partition("=") for line in unit.read_text().splitlines() if line.startswith("ExecStart")]
    assert lines
    for _, _, command in lines:
        program, *arguments = shlex.split(command)
        assert program.startswith("/opt/kernelreef/bin/")
        if program.endswith("/reef"):
            assert arguments[0] in typer.main.get_command(command_line).commands
        else:
            assert arguments[:3] == ["-m", "workers", "run"]


@pytest.mark.skipif(shutil.which("docker") is None, reason="this machine has no container engine")
def test_an_engine_accepts_the_file(secrets: Path) -> None:
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0:
        pytest.skip("this machine's engine knows no compose files")
    done = subprocess.run(
        ["docker", "compose", "-f", ROOT / "docker-compose.yml", "config", "--quiet"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
