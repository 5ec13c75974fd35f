"""An exported package on the card: its own tests, which hold it against its reference at every verified shape.

The searches are on the card's target without measuring, since it is the package that is tried here: forward kernels of
one search, and those of another where gradients are wanted.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from workers.protocol import Device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="searches need the extra [service]"),
]
REEF = (sys.executable, "-c", "from service.cli import main; main()")
REEF_S = 300
"""Seconds for one command."""


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, **environment}
    return subprocess.run(command, env=surroundings, cwd=cwd, capture_output=True, text=True, timeout=REEF_S)


@pytest.fixture(scope="module")
def package(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("reef")
    ours = {"REEF_DATA_DIR": str(data)}
    found = {}
    for operator in ("rmsnorm", "rmsnorm_backward"):
        model = f"model:{device.target}"
        done = run(*REEF, "search", operator, "--device", model, "--evaluations", "2", "--json", cwd=data, **ours)
        assert done.returncode == 0, done.stderr[-2000:]
        found[operator] = json.loads(done.stdout)["search"]
    out = ("--backward", found["rmsnorm_backward"], "--out", "package", "--json")
    done = run(*REEF, "export", found["rmsnorm"], *out, cwd=data, **ours)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["training"], done.stdout
    return data / "package"


def test_it_equals_the_reference_also_compiled_and_in_a_cuda_graph(package: Path) -> None:
    alone = (sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull)
    path = os.pathsep.join((str(package), str(Path(pytest.__file__).parents[1])))
    done = run(*alone, f"--rootdir={package}", str(package / "tests"), cwd=package, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= 20 and "skipped" not in done.stdout, done.stdout[-500:]


def test_its_benchmark_runs(package: Path) -> None:
    done = run(sys.executable, "-P", "benchmark.py", cwd=package, PYTHONPATH=str(package))
    assert done.returncode == 0, done.stderr[-2000:]
    times = re.findall(r"^  (rmsnorm_kernels|eager|torch.compile) +(\d+\.\d+) \(", done.stdout, re.MULTILINE)
    assert len(times) == 6 and all(float(time_us) > 0 for _, time_us in times), done.stdout
    assert "because" not in done.stdout, "its own kernels were timed"
