"""A search and a judgement on `recorded:h200`: nothing is compiled, and every figure says what it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.contracts import operators
from tests.imagined import imagine

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")


def _reef(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "REEF_DATA_DIR": str(folder / "data"),
        "REEF_LOCAL_WORKERS": "1",
        "XDG_CACHE_HOME": str(folder),
    }
    return subprocess.run([*REEF, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    imagine(folder / "kernelreef", count=400, slowest=0.9)
    return folder


def test_a_search_finds_what_was_recorded_and_says_so(folder: Path) -> None:
    done = _reef("search", "rmsnorm", "--device", "recorded:h200", "--evaluations", "60", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["evaluations"] == 60 and result["best"] > 1.0
    assert "RECORDED on h200" in result["figures"]
    best = _reef("best", "--json", folder=folder)
    assert json.loads(best.stdout)["search"] == result["search"]


def test_a_judgement_says_what_was_recorded_or_that_nothing_was(folder: Path, tmp_path: Path) -> None:
    seed, other = tmp_path / "seed.py", tmp_path / "other.py"
    seed.write_text(operators()["rmsnorm"].seeds[0])
    other.write_text(operators()["rmsnorm"].seeds[0] + "\n\nUNHEARD_OF = 1\n")
    found = {
        path.stem: json.loads(
            _reef("judge", "rmsnorm", str(path), "--device", "recorded:h200", "--json", folder=folder).stdout
        )
        for path in (seed, other)
    }
    assert (found["seed"]["outcome"], found["seed"]["provenance"]) == ("correct", "recorded")
    assert found["seed"]["speedup"]["mid"] == 1.0
    assert found["other"]["outcome"] == "not_recorded" and found["other"]["speedup"] is None
