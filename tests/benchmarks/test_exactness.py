"""A search that is killed finds what it finds undisturbed: a few kills here, a hundred by `benchmarks.exactness`."""

import random

import pytest

from benchmarks.exactness import run
from tests.imagined import imagine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_kills_change_nothing(tmp_path):
    data = tmp_path / "kernelreef"
    imagine(data, count=400, slowest=0.9)
    plain = run(tmp_path / "plain", "rmsnorm", 30, data, 0, random.Random(0))
    killed = run(tmp_path / "killed", "rmsnorm", 30, data, 5, random.Random(1))
    assert len(plain["candidates"]) == 30
    assert any(ordinal > 0 for _, ordinal, *_ in plain["elites"])
    assert (plain["kills"], killed["kills"]) == (0, 5)
    assert killed["candidates"] == plain["candidates"]
    assert killed["elites"] == plain["elites"]
