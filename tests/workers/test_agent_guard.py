"""A hostile agent under its guard: it writes in its folder only, sees no data folder, and nothing of it outlives it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers import agent_guard
from workers.agent_guard import GuardRequest

ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "SHOWN": "yes"}


def command(script: str) -> list[str]:
    return ["sh", "-c", script]


def guarded(folder: Path, script: str, *, seconds: float = 20.0, **more: object) -> tuple[str, dict[str, object]]:
    """Run a script as an agent. Returns its output and the guard's result."""
    request = {
        "command": command(script),
        "environment": ENVIRONMENT,
        "folder": str(folder),
        "seconds": seconds,
        **more,
    }
    with started() as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        said, result = process.stdout.read().decode(), process.stderr.read()
    return said, json.loads(result)


def started() -> "subprocess.Popen[bytes]":
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "workers.agent_guard"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


def running(mark: str) -> list[str]:
    """Command lines of processes with a mark in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [line] if mark in line and line.startswith("sleep") else []
    return found


def test_an_agent_works_in_its_folder_with_its_own_environment_only(tmp_path: Path) -> None:
    (tmp_path / "task").write_text("make it faster")
    said, result = guarded(tmp_path, "cat; echo; echo made > made; env | sort", input=str(tmp_path / "task"))
    assert said.splitlines()[0] == "make it faster"
    names = {line.partition("=")[0] for line in said.splitlines()[1:]}
    assert {"PATH", "SHOWN"} <= names <= {"PATH", "SHOWN", "PWD", "OLDPWD", "SHLVL", "_"}
    assert (tmp_path / "made").read_text() == "made\n"
    assert (result["status"], result["timed_out"], result["swept"]) == (0, False, True)


def test_the_exit_status_is_the_agents(tmp_path: Path) -> None:
    assert guarded(tmp_path, "exit 7")[1]["status"] == 7
    said, result = guarded(tmp_path, "", command=["/no/such/agent"])
    assert result["status"] == agent_guard.NOT_STARTED
    assert "cannot be started: No such file" in said


def test_an_agent_writes_nowhere_else_and_sees_no_hidden_folder(tmp_path: Path) -> None:
    folder, data, other, shared = (tmp_path / name for name in ("agent", "data", "other", "shared"))
    for each in (folder, data, other, shared):
        each.mkdir()
    (data / "reef.db").write_text("secret")
    script = (
        f"ls {data}; cat {data}/reef.db; echo x > {other}/x; echo x > {data}/x; rm -rf {other}; echo x > {shared}/x"
    )
    escapes = f"; mount -o remount,rw {other}; umount {data}; umount -l {data}; cat {data}/reef.db; echo x > {other}/y"
    said, result = guarded(folder, script + escapes, hidden=[str(data)], writable=[str(shared)])
    if "readonly" not in str(result["isolation"]):
        pytest.skip(f"this machine lets no process make its mounts read-only: {result['isolation']}")
    assert "secret" not in said
    assert other.is_dir() and list(other.iterdir()) == []
    assert [path.name for path in data.iterdir()] == ["reef.db"]
    assert (shared / "x").read_text() == "x\n"


@pytest.mark.parametrize("layers", [agent_guard.WEAKER[0], frozenset[str]()], ids=["strongest", "none"])
def test_nothing_outlives_an_agent_that_forks_twice_and_ignores_every_signal(tmp_path: Path, layers) -> None:
    mark = f"{1000 + os.getpid()}.{len(layers)}"
    script = (
        f"trap '' TERM HUP INT; (setsid sh -c \"trap '' TERM; (setsid sleep {mark} &); sleep {mark}\" &); "
        f"echo $$; while true; do sleep {mark}; done"
    )
    request = GuardRequest(command(script), ENVIRONMENT, str(tmp_path), 1.5)
    began = time.monotonic()
    _, result = in_a_process(request, layers)
    assert time.monotonic() - began < 30
    assert (result["status"], result["timed_out"], result["swept"]) == (None, True, True)
    assert running(mark) == []


def test_an_agent_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    mark = f"{2000 + os.getpid()}.5"
    _, result = guarded(tmp_path, f"(setsid sleep {mark} > /dev/null 2>&1 &); exit 0")
    assert (result["status"], result["swept"], running(mark)) == (0, True, [])


def test_a_broken_lifeline_ends_the_agent(tmp_path: Path) -> None:
    mark = f"{3000 + os.getpid()}.5"
    request = GuardRequest(command(f"sleep {mark}"), ENVIRONMENT, str(tmp_path), 600.0)
    with started() as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(json.dumps(vars(request)).encode() + b"\n")
        process.stdin.flush()
        while not running(mark):
            time.sleep(0.05)
        process.stdin.close()
        result = json.loads(process.stderr.read())
    assert (result["status"], result["timed_out"], running(mark)) == (None, False, [])


def test_a_killed_guard_takes_the_agent_with_it(tmp_path: Path) -> None:
    mark = f"{4000 + os.getpid()}.5"
    request = GuardRequest(command(f"sleep {mark}"), ENVIRONMENT, str(tmp_path), 600.0)
    with started() as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(vars(request)).encode() + b"\n")
        process.stdin.flush()
        while not running(mark):
            time.sleep(0.05)
        process.kill()
    until = time.monotonic() + 10
    while running(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert running(mark) == []


def in_a_process(request: GuardRequest, layers: frozenset[str]) -> tuple[str, dict[str, object]]:
    """Run the guard with one isolation in a process of its own, whose children it may all kill."""
    code = (
        "import json, os, sys; from dataclasses import asdict; from workers import agent_guard as g; "
        "from workers.sandbox import syscalls; "
        f"g.WEAKER = (frozenset({sorted(layers)!r}), frozenset()); syscalls.adopt_orphans(); "
        "request = g.GuardRequest(**json.loads(sys.argv[1])); ends = os.pipe(); "
        "os.write(2, json.dumps(asdict(g.guard(request, ends[0]))).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(vars(request))], capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode(), json.loads(done.stderr)
