"""Processes that execute or compile what comes out of an emitter."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.emitters.rules import chunk_row
from tests.service.emitters.samples import ARGUMENTS, SIZES


@dataclass
class Runner:
    """A process that executes sources with Triton's interpreter, or compiles them."""

    process: subprocess.Popen

    def ask(self, source, operator, sizes=SIZES, dtype="float32"):
        shapes = [ARGUMENTS[operator](*size) for size in sizes]
        request = {"source": source, "entry": operator, "shapes": shapes, "dtype": dtype}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def runner(mode):
    script = Path(__file__).parent / "interpreted.py"
    process = subprocess.Popen(
        [sys.executable, str(script), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    yield Runner(process)
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


@pytest.fixture(scope="session")
def interpreter():
    yield from runner("interpret")


@pytest.fixture(scope="session")
def compiler():
    yield from runner("compile")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks that small rows have several of."""
    monkeypatch.setattr(chunk_row, "CHUNKS", (16, 32))


@pytest.fixture(scope="session")
def meanings():
    """What sources computed before, by source: filled by `assert_same`."""
    return {}


@pytest.fixture
def assert_same(interpreter, meanings):
    """Checks that a source computes what another does, within float32's rounding, on every awkward size."""

    def check(before, after, operator):
        if before not in meanings:
            meanings[before] = interpreter.ask(before, operator)
        expected, found = meanings[before], interpreter.ask(after, operator)
        assert "error" not in expected, expected["error"]
        assert "error" not in found, f"{found['error']}\n{after}"
        assert distance(expected["outputs"], found["outputs"]) < 2e-5, after

    return check


def distance(expected, found):
    """The largest error relative to one plus the value; infinite where shapes or the places of NaN differ."""
    if [item["shape"] for item in expected] != [item["shape"] for item in found]:
        return math.inf
    values = [[value for item in outputs for value in item["values"]] for outputs in (expected, found)]
    if any(math.isnan(one) != math.isnan(two) for one, two in zip(*values, strict=True)):
        return math.inf
    pairs = [(one, two) for one, two in zip(*values, strict=True) if one != two and not math.isnan(one)]
    return max((abs(one - two) / (1 + abs(one)) for one, two in pairs), default=0.0)
