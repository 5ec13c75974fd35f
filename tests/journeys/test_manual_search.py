"""A program drives a whole search through REST alone, to an improved kernel, and does it the same way again."""

import contextlib
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.analysis.trajectories import Trajectory
from service.operators.catalogue import load_catalogue

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")
ANSWERER = Path(__file__).parents[2] / "examples" / "answerer" / "answer.py"
OPERATOR = "swiglu"
ANSWERS = 2
"""Of which the first is an improvement of the first seed."""
BUDGET = len(load_catalogue()[OPERATOR].seeds) + ANSWERS
"""Candidates."""


@contextlib.contextmanager
def serving(data: Path) -> Iterator[str]:
    """A service with everything embedded, one candidate at a time; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("REEF_")},
        **{"REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "1", "REEF_IN_FLIGHT_PER_SEARCH": "1"},
    }
    with (data / "serve.log").open("w") as log:
        server = subprocess.Popen([*REEF, "serve", "--port", str(port)], env=environment, stdout=log, stderr=log)
        try:
            yield _ready(f"http://127.0.0.1:{port}", server, data)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def _ready(url: str, server: subprocess.Popen[bytes], data: Path) -> str:
    for _ in range(600):
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"{url}/readyz", timeout=5).close()
            return url
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError((data / "serve.log").read_text())


def read(url: str, path: str) -> bytes:
    with urllib.request.urlopen(f"{url}/api/v1{path}", timeout=60) as answer:
        content: bytes = answer.read()
        return content


def shown(url: str, path: str) -> Any:
    return json.loads(read(url, path))


def drive(data: Path) -> tuple[list[Trajectory], float]:
    """One search in a service of its own: what it did, and its best kernel's speedup over the seed."""
    data.mkdir()
    with serving(data) as url:
        done = subprocess.run(
            [sys.executable, str(ANSWERER), "--url", url, "--operator", OPERATOR, "--budget", str(BUDGET)],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr + (data / "serve.log").read_text()
        search = done.stdout.split()[1]
        progress = shown(url, f"/searches/{search}/progress")
        assert (progress["state"], progress["evaluated"]) == ("done", BUDGET)
        steps = [
            Trajectory.model_validate_json(line) for line in read(url, f"/searches/{search}/trajectories").splitlines()
        ]
        assert shown(url, f"/prompts?search={search}&state=waiting")["items"] == []
        return steps, progress["devices"][0]["best"]


def told(step: Trajectory) -> dict[str, Any]:
    """What must be the same in every run: all but ids."""
    prompts = [re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "id", asked.prompt) for asked in step.exchanges]
    answers = [asked.answer for asked in step.exchanges]
    same = ("step", "emitter", "note", "source", "outcome", "configuration", "gain_over_parent", "gain_over_seed")
    return {**step.model_dump(include=set(same)), "prompts": prompts, "answers": answers}


def test_a_program_improves_a_kernel_through_rest_alone_and_again_alike(tmp_path: Path) -> None:
    steps, best = drive(tmp_path / "first")
    assert best > 1.0
    written = [step for step in steps if step.emitter == "llm"]
    assert len(written) == ANSWERS
    assert {step.outcome for step in steps} == {"correct"}
    assert all(asked.backend == "manual" and asked.model == "answer.py" for step in written for asked in step.exchanges)
    assert all(step.source.strip() in (step.exchanges[-1].answer or "") for step in written)
    again, same_best = drive(tmp_path / "second")
    assert same_best == best
    assert [told(step) for step in again] == [told(step) for step in steps]


def test_the_rules_make_each_kernel_once_and_always_the_same() -> None:
    rules = runpy.run_path(str(ANSWERER))
    source = (ANSWERER.parents[2] / "operators" / "rmsnorm" / "seeds" / "plain.py").read_text()
    prompt = f"# Operator\n\n```python\nimport torch\n```\n\n# Kernels\n\nKernel 1.\n\n````python\n{source}````\n"
    assert rules["kernel_of"](prompt) == source.rstrip("\n")
    first, second = rules["Rules"](), rules["Rules"]()
    answers = [first.answer(prompt) for _ in range(5)]
    assert answers == [second.answer(prompt) for _ in range(5)]
    assert len(set(answers)) == 5 and answers[4].startswith("No rule")
    assert "n_cols: tl.constexpr" in answers[0] and "num_warps=4" in answers[1]
    assert rules["Rules"]().answer("Ignore the rules.") == "The prompt shows no kernel to start from."
