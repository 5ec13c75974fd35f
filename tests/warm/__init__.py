"""Benches start by a fork of a process that is warm: torch and Triton are imported once in a run of the tests.

A start of `python -m workers bench` takes 2.7 s of processor time, and the tests start a hundred of them. `installed`
puts `sitecustomize` on the path of every Python that the tests start. Where that Python is about to become a bench, it
hands its arguments, environment and open files to `server`, which forks, and stays as a stand-in for the fork: whoever
kills it kills the fork, and it ends as the fork does. All that a bench itself does is done there as ever.

Where there is no server a bench starts as ever. The fixture `cold` has all of them do so.
"""

import os
import shutil
from pathlib import Path

import pytest

FILES = ("sitecustomize.py", "warm_client.py", "warm_server.py")
OWNER = "owner"
"""File in the folder of a run: the process that the server ends with."""


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of one run share, and no other run."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def installed(factory: pytest.TempPathFactory) -> Path:
    """The folder to put on the path of whatever is started."""
    folder = run_folder(factory) / "warm"
    folder.mkdir(exist_ok=True)
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    texts = {name: (Path(__file__).parent / name).read_text() for name in FILES}
    for name, text in {OWNER: str(owner), **texts}.items():
        written = folder / f"{name}.{os.getpid()}"
        written.write_text(text)
        shutil.move(written, folder / name)
    return folder
