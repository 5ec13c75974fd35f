"""The survey says what is there, and why what is not there was not tried; with and without a card."""

import json
import subprocess
import sys
from pathlib import Path

from tests.workers.paper_driver import Result, on_paper
from workers.protocol.survey import Survey
from workers.survey import PACKAGES, survey

ROOT = Path(__file__).parents[2]


def test_every_machine_has_a_jail_and_tools_and_a_word_about_cards() -> None:
    found = survey()
    assert "pid" in found.jail and set(found.versions) == {"python", "ptxas", "compute-sanitizer", *PACKAGES}
    assert found.versions["triton"][0].isdigit()
    assert found.cards or found.no_card.startswith("not tried: ")


def test_the_command_prints_one_object() -> None:
    command = (sys.executable, "-m", "workers", "survey")
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said.count("\n") == 1 and Survey.model_validate(json.loads(said)).jail == survey().jail


def test_memory_that_cannot_be_opened_is_an_error_of_the_reader() -> None:
    command = (sys.executable, "-m", "workers.survey", "--read", "99", "00" * 64)
    reader = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (reader.returncode, reader.stdout) == (1, "")
    assert reader.stderr.splitlines()[-1].startswith(("workers.errors.ToolMissing", "workers.driver.DriverError"))


def test_a_card_that_is_full_hides_none_after_it() -> None:
    with on_paper() as paper:
        paper.cards, paper.full = 3, frozenset({0, 2})
        found = survey()
    assert [card.number for card in found.cards] == [1]
    assert found.no_card == (
        "card 0 cannot be opened: CUDA_ERROR_OUT_OF_MEMORY; card 2 cannot be opened: CUDA_ERROR_OUT_OF_MEMORY"
    )


def test_a_driver_that_cannot_be_used_is_said_once() -> None:
    with on_paper() as paper:
        paper.failing["cuInit"] = Result.CUDA_ERROR_INVALID_VALUE
        assert survey().no_card == "not tried: CUDA_ERROR_INVALID_VALUE"
