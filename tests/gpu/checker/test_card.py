"""On a card the checker says what it says on the CPU, and its kernels find what torch finds."""

import json
import subprocess
import sys

import pytest

from tests.gpu.checker.scene import FAR
from tests.workers.checks.cases import FAULTS

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def scene():
    done = subprocess.run([sys.executable, "-m", "tests.gpu.checker.scene"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_greets_with_what_decides_about_figures(scene):
    assert scene["greeting"]["answer"] == "opened"
    assert {"driver", "cuda", "torch", "card"} <= set(scene["greeting"]["versions"])


def test_who_shares_the_checker_has_it_look_into_an_arena_of_its_own(scene):
    assert scene["arenas"] == [["correct", "correct"], ["correct", "out_of_bounds"], ["out_of_bounds", "correct"]]


def test_float32_is_computed_as_such(scene):
    assert max(scene["precision"].values()) < 2e-6


def test_kernels_agree_with_torch(scene):
    assert scene["kernels"] == []


def test_honest_kernels_pass(scene):
    said = {name: what for name, what in scene["trials"].items() if name.startswith("honest")}
    assert len(said) > 100
    assert {name: what for name, what in said.items() if what != "correct: "} == {}


def test_faults_are_found(scene):
    said = {
        name.partition(" ")[2]: what for name, what in scene["trials"].items() if name.startswith(("fault", "round"))
    }
    assert len(said) > 15
    assert {name: what for name, what in said.items() if what.partition(":")[0] not in FAULTS[name][2]} == {}


@pytest.mark.parametrize(
    ("trial", "outcome"),
    [
        ("never written", "wrong_result"),
        ("beside a buffer", "out_of_bounds"),
        ("nowhere", "correct"),
        *((f"far off, at {place}", "out_of_bounds") for place in FAR),
        ("repeated", "correct"),
        ("not repeated", "nondeterministic"),
        ("after too large", "correct"),
    ],
)
def test_other_trials_end_as_they_should(scene, trial, outcome):
    assert scene["trials"][trial].partition(":")[0] == outcome


def test_a_nan_is_found_wherever_it_is(scene):
    assert scene["finite"] == {"nowhere": True, **{str(place): False for place in FAR}}


def test_too_little_memory_is_no_verdict(scene):
    assert "memory does not suffice" in scene["trials"]["too large"]
