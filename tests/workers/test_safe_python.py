"""Children whose current folder holds files of the standard library's and of our names."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from workers.safe_python import CARDS_IN_BUS_ORDER, PYTHON, SAFE, executor_environment, safe_environment

REPORT = "import json, sys; print(json.dumps(sys.path))"


@pytest.mark.parametrize("given", [{}, {"PYTHONPATH": os.pathsep + "/lib"}, {"PYTHONPATH": "here" + os.pathsep + "."}])
def test_the_current_folder_is_on_no_child_s_path(given: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('run in place of ours')")
    (tmp_path / "here").mkdir()
    environment = safe_environment({**os.environ, **given})
    command = (*PYTHON, "-c", REPORT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    path = json.loads(done.stdout)
    assert "" not in path and not any(entry.startswith(str(tmp_path)) for entry in path)
    assert ("/lib" in path) == ("/lib" in given.get("PYTHONPATH", ""))


def test_children_of_children_are_safe_too(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('run in place of ours')")
    command = (PYTHON[0], "-c", REPORT)
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **SAFE}, capture_output=True, text=True, check=True)
    assert "" not in json.loads(done.stdout)


def test_an_environment_is_kept_otherwise() -> None:
    assert safe_environment({"HOME": "/root"}) == {"HOME": "/root", **SAFE}


NEEDED = {
    "PATH": "/bin",
    "PYTHONPATH": "/code",
    "TRITON_CACHE_DIR": "/cache",
    "CUDA_VISIBLE_DEVICES": "1",
    **SAFE,
    **CARDS_IN_BUS_ORDER,
}


@pytest.mark.parametrize(
    "name",
    [
        "REEF_REDIS_URL",
        "OPENAI_API_KEY",
        "TRITON_INTERPRET",
        "TRITON_PTXAS_PATH",
        "TRITON_KERNEL_OVERRIDE",
        "TRITON_OF_NEXT_YEAR",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "NVIDIA_TF32_OVERRIDE",
        "CUDA_LAUNCH_BLOCKING",
        "MKL_CBWR",
        "PYTHONOPTIMIZE",
        "PYTHONHASHSEED",
        "PYTHONWARNINGS",
        "LD_PRELOAD",
    ],
)
def test_an_executor_inherits_what_it_needs_but_no_secret_and_nothing_that_sways_a_verdict(name: str) -> None:
    assert executor_environment({**NEEDED, name: "1"}) == NEEDED
