"""A search that is killed finds what it finds undisturbed: a few kills here, a hundred by `benchmarks.exactness`."""

import random

import pytest

from benchmarks.exactness import DEVICE, run
from tests.imagined import imagine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SEARCH = ["rmsnorm", "--device", DEVICE, "--evaluations", "30", "--seed", "1"]


def test_kills_change_nothing(tmp_path):
    data = tmp_path / "kernelreef"
    imagine(data, count=400)
    plain = run(tmp_path / "plain", SEARCH, data, 0, random.Random(0))
    killed = run(tmp_path / "killed", SEARCH, data, 5, random.Random(1))
    assert len(plain["candidates"]) == 30 and plain["elites"]
    assert killed["candidates"] == plain["candidates"]
    assert killed["elites"] == plain["elites"]
