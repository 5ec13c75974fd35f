"""A folder whose files have the names of ours, of a library and of the standard library: none of them is run."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kernelreef.rooms import HOME
from service.operators.catalogue import load_catalogue
from tests.journeys.small import small_operator
from tests.service.serving import free_port

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-m", "kernelreef")
"""The current folder comes first on the path of `-m`; that of the console script does not even hold it."""
FILES = ("workers.py", "archive.py", "operators.py", "redis.py", "secrets.py", "service/__init__.py")
MINE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"
SCRIPT = """
import sys
from kernelreef import Reef

with Reef(sys.argv[1], "") as reef:
    print(*sorted(operator.name for operator in reef.operators(catalogue=True)))
"""
FIRST_LOOK_S = 30.0
"""Seconds in which a worker that does not start ends its search on a busy machine; on two quiet cores it takes 7."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A user's folder; none of its files may have run at the end."""
    folder = tmp_path / "mine"
    (folder / "service").mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(MINE)
    (folder / "script.py").write_text(SCRIPT)
    yield folder
    assert [path.name for path in folder.rglob("*.ran")] == []


def reef(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    given = {**os.environ, "REEF_DATA_DIR": str(folder.parent / "data"), "REEF_LOCAL_WORKERS": "1", **environment}
    return subprocess.run((*REEF, *arguments), cwd=folder, env=given, capture_output=True, text=True, timeout=500)


def test_a_kernel_is_judged_and_searched_for(folder: Path) -> None:
    spec = small_operator(folder)
    # The first entry of this path is empty: it stands for the current folder.
    judged = reef(folder, "judge", str(spec), "seed0.py", "--json", PYTHONPATH=f"{os.pathsep}{HOME}")
    assert json.loads(judged.stdout)["outcome"] == "correct", judged.stderr
    searched = reef(folder, "search", str(spec), "--evaluations", "1", "--json")
    assert json.loads(searched.stdout)["state"] == "done", searched.stderr


def test_the_doctor_tells_of_the_files(folder: Path) -> None:
    done = reef(folder, "doctor", "--json")
    findings = json.loads(done.stdout)
    assert done.returncode == 0, findings
    ours = ("workers.py", "archive.py", "operators.py", "service")
    assert all(str(folder / name) in findings["names"] for name in ours), findings
    assert findings["top-level packages"] == "all ours"


def test_a_script_beside_them_speaks_to_a_service_that_was_started_there(folder: Path) -> None:
    # A script's own process finds its folder first: there, this file hides the standard library's from every library.
    (folder / "secrets.py").unlink()
    with serving(folder) as url:
        script = subprocess.run(
            (sys.executable, "script.py", url), cwd=folder, capture_output=True, text=True, timeout=100
        )
    assert script.stdout.split() == sorted(load_catalogue()), script.stderr


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "REEF_DATA_DIR": str(folder.parent / "data"), "REEF_LOCAL_WORKERS": "1"}
    service = subprocess.Popen((*REEF, "serve", "--port", str(port)), cwd=folder, env=environment)
    try:
        while service.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            time.sleep(0.1)
        yield url
    finally:
        service.terminate()
        assert service.wait(60) == 0


def test_a_worker_that_does_not_start_ends_its_search_with_the_reason(folder: Path) -> None:
    broken = folder.parent / "broken"
    (broken / "triton").mkdir(parents=True)
    reason = "libcudart.so.13: cannot open shared object file"
    (broken / "triton" / "__init__.py").write_text(f"raise ImportError({reason!r})")
    spec = small_operator(folder)
    began = time.monotonic()
    done = reef(folder, "search", str(spec), PYTHONPATH=str(broken))
    took_s = time.monotonic() - began
    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("reef: the trace worker exited with status 1; see "), done.stderr
    assert last.endswith(f"workers.log: ImportError: {reason}")
    assert took_s < FIRST_LOOK_S, f"{took_s:.1f} s"
