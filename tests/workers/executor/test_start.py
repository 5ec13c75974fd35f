"""The start of an executor: its kind, its options, and what it says if it cannot start."""

import subprocess
import sys

import pytest

from workers.errors import ExecutorDied
from workers.executor_client import ExecutorClient

COMMAND = (sys.executable, "-m", "workers.executor")
READY_S = 120.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("neither",), "status 1: ModuleNotFoundError: No module named 'workers.executor.neither'"),
        (("trace", "--unheard"), r"status 2: python -m workers.executor trace: error: .*--unheard"),
    ],
)
def test_an_executor_that_cannot_start_says_why(arguments: tuple[str, ...], said: str) -> None:
    client = ExecutorClient((*COMMAND, *arguments), duplex=True)
    with pytest.raises(ExecutorDied, match=said):
        client.ready(READY_S)


def test_an_executor_without_the_metadata_of_a_package_says_which(tmp_path, monkeypatch, cold) -> None:
    """As on a host that has torch's files and not its `dist-info`."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_METADATA)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    client = ExecutorClient((*COMMAND, "trace", "--answers", "0"), duplex=True)
    with pytest.raises(ExecutorDied, match="PackageNotFoundError: No package metadata was found for torch"):
        client.ready(READY_S)


WITHOUT_METADATA = """
import importlib.metadata

def version(name):
    raise importlib.metadata.PackageNotFoundError(name)

importlib.metadata.version = version
"""


def test_it_ends_with_its_input() -> None:
    done = subprocess.run((*COMMAND, "trace"), input=b"", capture_output=True, timeout=READY_S, check=False)
    assert done.returncode == 0 and b'"kind":"ready"' in done.stdout
