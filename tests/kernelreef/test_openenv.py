"""OpenEnv's own client plays episodes through its own server, against a real service with a worker.

`make peers` installs OpenEnv, in a venv of its own because it pins an `mcp` that ours must not have.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from math import log
from pathlib import Path

import httpx
import pytest

from kernelreef import Reef
from kernelreef.training import Turn
from service.operators.catalogue import load_catalogue
from tests.journeys.small import small_request
from tests.service.serving import Served, free_port

pytestmark = [pytest.mark.slow(reason="a venv of its own; test_training.py plays the same episodes without OpenEnv")]

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "openenv" / "bin" / "python"
OPERATOR = {**small_request(), "seeds": load_catalogue()["softmax"].seeds[:1]}
START_S = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """Addresses of a service and of an OpenEnv server for a search in it, and the search's id."""
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import openenv"], check=False).returncode:
        reason = "no OpenEnv here; make peers installs it"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder, port = tmp_path_factory.mktemp("openenv"), free_port()
    with Served(folder / "data", workers=1) as service, Reef(service.url) as reef:
        search = reef.submit(OPERATOR, devices=["model:sm_90"], emitters=["agent"], evaluations=40).id
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "REEF_URL": service.url, "REEF_SEARCH": search}
        command = [PYTHON, "-m", "uvicorn", "--factory", "kernelreef.openenv:app", "--port", str(port)]
        log = folder / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, env={**environment, "REEF_TURNS": "3"}, stdout=file, stderr=file)
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S
        try:
            while not answers(url):
                assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
                time.sleep(0.2)
            yield service.url, url, search
        finally:
            process.terminate()
            process.wait(timeout=30)
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_episodes_of_its_client_earn_what_the_service_says(server: tuple[str, str, str]) -> None:
    service, url, search = server
    command = [PYTHON, ROOT / "examples" / "training" / "episodes.py", url, "--episodes", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(step["episode"], step["turn"]) for step in steps} == {(e, t) for e in range(6) for t in (1, 2, 3)}
    assert all(step["done"] == (step["turn"] == 3) and step["outcome"] == "correct" for step in steps)
    for step in steps:
        assert step["reward"] == pytest.approx(max(-0.25, min(1.0, log(step["gain"]["low"]))))
    assert any(step["reward"] > 0 for step in steps) and any(step["reward"] <= 0 for step in steps)
    with Reef(service) as reef:
        kernels = {each.id: each.emitter for each in reef.candidates(search)}
    assert {step["candidate"] for step in steps} == set(kernels), "each number of warps is judged once"
    assert sorted(kernels.values()) == [*["agent"] * 4, "seed"]


def test_its_schema_has_every_field_of_a_turn(server: tuple[str, str, str]) -> None:
    _, url, _ = server
    schema = httpx.get(f"{url}/schema", trust_env=False).json()
    assert schema["action"]["required"] == ["source"]
    assert set(Turn.model_fields) <= set(schema["observation"]["properties"])


def test_a_single_request_without_a_session_is_an_episode_of_one_step(server: tuple[str, str, str]) -> None:
    _, url, _ = server
    source = OPERATOR["seeds"][0] + "}"
    answer = httpx.post(f"{url}/step", json={"action": {"source": source}}, timeout=200, trust_env=False).json()
    assert (answer["observation"]["outcome"], answer["reward"], answer["done"]) == ("syntax_error", -1.0, False)
