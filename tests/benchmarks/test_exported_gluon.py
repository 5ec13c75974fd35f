"""The spec with one seed, and steps that end at the first failure."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from benchmarks.exported_gluon import KERNEL, NAME, ROOT, PackageSteps, StepFailed, write_spec
from service.operators.catalogue import load_catalogue, load_operator
from workers.protocol import Device


def test_a_spec_has_the_kernel_as_its_only_seed_and_one_baseline(tmp_path: Path) -> None:
    found = load_operator(str(write_spec(ROOT / "operators/attention", KERNEL, tmp_path / "spec")))
    before = load_catalogue()["attention"]
    assert found.seeds == (KERNEL.read_text(),) and found.baselines == ("native",)
    assert (found.reference, found.shapes, found.ranges) == (before.reference, before.shapes, before.ranges)


def steps(folder: Path) -> PackageSteps:
    asked = argparse.Namespace(
        state=folder / "state", out=folder / "out", operator="attention", kernel=KERNEL, limit_s=60.0
    )
    return PackageSteps(asked, Device.parse("model:sm_90"))


def test_a_step_that_fails_is_a_row_and_ends_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(tmp_path)
    monkeypatch.setattr(taken, "_judge", lambda: {"outcome": "correct"})
    failing = "import sys; print('all is well'); sys.exit('no card')"
    monkeypatch.setattr(taken, "_search", lambda: {"search": taken._called(sys.executable, "-c", failing)})
    with pytest.raises(StepFailed, match=r"search: status 1: all is well\s+no card"):
        taken.run()
    (first, second) = json.loads((tmp_path / f"out/{NAME}.json").read_text())["rows"]
    assert first["step"] == "judge" and first["outcome"] == "correct" and "failed" not in first
    assert second["step"] == "search" and "no card" in second["failed"]


def test_json_is_found_behind_other_lines(tmp_path: Path) -> None:
    told = "print('search 5 of 8'); print('{\"search\": \"a\"}'); print('done')"
    assert steps(tmp_path)._json(sys.executable, "-c", told) == {"search": "a"}
