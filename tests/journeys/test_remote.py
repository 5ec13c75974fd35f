"""A served coordinator with workers, and commands that speak to it from elsewhere: submit, watch, best, export."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.operators.catalogue import load_catalogue
from tests.journeys.small import small_operator
from tests.service.serving import REEF, Served
from tests.workers.kernelbench.problems import forward

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("data"), workers=1) as service:
        yield service


def reef(service: Served | None, elsewhere: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a machine whose own archive is empty."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    environment |= {"REEF_DATA_DIR": str(elsewhere / "own"), "REEF_LOG_LEVEL": "error"}
    if service is not None:
        environment["REEF_URL"] = service.url
    return subprocess.run(
        [*REEF, *arguments], env=environment, cwd=elsewhere, capture_output=True, text=True, timeout=600
    )


def test_a_search_is_submitted_watched_and_taken_away(service: Served, tmp_path: Path) -> None:
    submitted = reef(service, tmp_path, "submit", "rmsnorm", "--evaluations", "2", "--json")
    assert submitted.returncode == 0, submitted.stderr
    search = json.loads(submitted.stdout)["id"]
    watched = reef(service, tmp_path, "watch", search, "--json")
    assert watched.returncode == 0, watched.stderr
    result = json.loads(watched.stdout)
    assert (result["search"], result["state"], result["evaluations"]) == (search, "done", 2)
    best = reef(service, tmp_path, "best", search, "--out", "kernels", "--json")
    found = json.loads(best.stdout)
    assert found["speedup"]["low"] == result["best"] >= 1.0
    kernel = subprocess.run([sys.executable, found["file"]], capture_output=True, text=True, timeout=120)
    assert kernel.returncode == 0 and "largest error" in kernel.stdout, kernel.stdout + kernel.stderr
    plan = reef(service, tmp_path, "plan", "show", found["candidate"])
    assert plan.returncode == 0 and "launch" in plan.stdout
    exported = reef(service, tmp_path, "export", search, "--out", "found.zip", "--json")
    assert exported.returncode == 0, exported.stderr
    with zipfile.ZipFile(json.loads(exported.stdout)["file"]) as file:
        manifest = json.loads(file.read("manifest.json"))
        (device,) = manifest["devices"]
        assert manifest["search"]["id"] == search
        assert max(elite["objective"] for elite in device["elites"]) == result["best"]
        assert all(name in file.namelist() for elite in device["elites"] for name in elite["files"])
    checked = reef(service, tmp_path, "operators", "check", "rmsnorm", "--json")
    assert (checked.returncode, json.loads(checked.stdout)[0]["verdict"]) == (0, "passed")
    assert not (tmp_path / "own").exists(), "nothing was begun here"


def test_a_problem_of_kernelbench_is_submitted_as_the_operator_that_is_made_of_it(
    service: Served, tmp_path: Path
) -> None:
    (tmp_path / "7_Doubled.py").write_text(forward("return torch.relu(x) * 2 - x"))
    submitted = reef(service, tmp_path, "submit", "--kernelbench", "7_Doubled.py", "--evaluations", "1", "--json")
    assert submitted.returncode == 0, submitted.stderr
    search = json.loads(submitted.stdout)
    assert search["operator"].endswith("7_doubled")
    watched = reef(service, tmp_path, "watch", search["id"], "--json")
    assert (watched.returncode, json.loads(watched.stdout)["state"]) == (0, "done"), watched.stderr
    assert not (tmp_path / "own").exists(), "nothing was begun here"


def test_candidates_are_judged_there(service: Served, tmp_path: Path) -> None:
    spec, kernel = str(small_operator(tmp_path)), load_catalogue()["softmax"].seeds[0]
    for source, outcome, code in (
        (kernel + "\nUNUSED = 1\n", "correct", 0),
        ("from sys import *\n" + kernel, "forbidden_import", 4),
        (kernel + "def broken(:\n", "syntax_error", 4),
    ):
        (tmp_path / "kernel.py").write_text(source)
        done = reef(service, tmp_path, "judge", spec, "kernel.py", "--json")
        assert done.returncode == code, done.stderr
        verdict = json.loads(done.stdout)
        assert (verdict["outcome"], verdict["device"]) == (outcome, "model:sm_90")
        if outcome == "correct":
            assert verdict["speedup"]["low"] == pytest.approx(1.0)
            assert verdict["provenance"] == "predicted" and verdict["coordinates"] and len(verdict["plan"]) == 64
        else:
            assert verdict["speedup"] is None and verdict["line"]


def test_what_is_wrong_is_one_line_and_an_exit_code(service: Served, tmp_path: Path) -> None:
    nobody = "0190a000-0000-7000-8000-000000000000"
    for arguments, said in (
        (("submit", "no_such_operator"), "rmsnorm"),
        (("watch", nobody), "no search"),
        (("plan", "show", nobody), "no candidate"),
    ):
        done = reef(service, tmp_path, *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), (arguments, done.stderr)
        assert said in done.stderr
    away = reef(None, tmp_path, "best", nobody, "--url", "http://127.0.0.1:9")
    assert (away.returncode, "does not answer" in away.stderr) == (1, True), away.stderr
