"""Durations out of a report as pytest writes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.durations import Case, read, rows, summary

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest
import time


def test_works():
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass


def test_waits():
    time.sleep(0.3)


@pytest.mark.skip
def test_rests():
    pass
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("tests")
    (folder / "test_some.py").write_text(TESTS)
    report = folder / "report.xml"
    command = (sys.executable, "-m", "pytest", "-q", "-p", "tests.costs", f"--junitxml={report}", str(folder))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run((*command, "-c", os.devnull, f"--rootdir={folder}"), cwd=folder, env=environment, check=True)
    return {case.name: case for case in read(report)}


def test_a_case_has_seconds_of_the_clock_and_of_a_processor(cases) -> None:
    assert set(cases) == {"test_works", "test_waits"}
    assert cases["test_works"].processor_s >= 0.2
    assert cases["test_waits"].clock_s >= 0.3 > cases["test_waits"].processor_s


def test_what_costs_most_comes_first(cases) -> None:
    total = summary([*cases.values()])
    assert total["cases"] == 2 and float(str(total["processor_s"])) >= 0.2
    other = Case("tests.test_other", "test_it", 9.0, 5.0)
    first, second, *slowest = rows([*cases.values(), other])
    assert (first["file"], second["cases"]) == ("tests.test_other", 2)
    assert [row["processor_s"] for row in slowest] == sorted((row["processor_s"] for row in slowest), reverse=True)
    assert slowest[0]["case"] == "tests.test_other::test_it"


def test_the_share_of_the_slowest_tenth(cases) -> None:
    many = [Case("f", str(number), 1.0, 9.0 if number == 0 else 1.0) for number in range(10)]
    assert summary(many)["share_of_slowest_tenth"] == 0.5
