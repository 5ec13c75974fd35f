"""The table of attacks: complete, and equal to what the rogues say of themselves."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.finalists import load_rogues as load_finalists
from tests.gpu.rogues import load_rogues
from tests.workers.rogues import without
from tests.workers.test_trace_job import EXPECTED
from workers.assembler.ptx.lint import RULES
from workers.checks import CHECKS
from workers.devices.examination import OUTCOMES
from workers.devices.finalist_checks import FAR_INDICES
from workers.protocol import Outcome
from workers.trace_job.claims import CLAIMS

ROGUES = Path(__file__).parent
TABLE = Path(__file__).parents[3] / "docs" / "explanation" / "attacks.md"
CATALOGUE = 118
"""Attacks of the catalogue that the judge was designed against; what is numbered on was found since."""
_QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One attack: its number, the files that express it, what stops it, and the outcomes of those files."""

    number: str
    attack: str
    rogues: tuple[str, ...]
    stopped_by: str
    outcomes: frozenset[str]


def read_table() -> list[Row]:
    rows = []
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] not in ("#", "---"):
            number, attack, rogues, stopped_by, outcomes = cells
            found = frozenset(_QUOTED.findall(outcomes))
            rows.append(Row(number, attack, tuple(_QUOTED.findall(rogues)), stopped_by, found))
    return rows


ROWS = read_table()
KINDS = ("host", "device", "final")
FILES = {f"{path.parent.name}/{path.stem}" for kind in KINDS for path in (ROGUES / kind).glob("*.py")}
FAR = frozenset({Outcome.WRONG_RESULT, Outcome.DEVICE_FAULT})
"""Outcomes of who counts in too few bits: it writes elsewhere, or nowhere that is memory."""


def outcomes_of(rogue: str) -> frozenset[Outcome]:
    kind, name = rogue.split("/")
    if kind == "final":
        caught_by = next(each.expected for each in load_finalists() if each.name == f"rogue/{name}")
        return FAR if caught_by == FAR_INDICES else frozenset({OUTCOMES[caught_by]})
    return frozenset({EXPECTED[name][0]}) if kind == "host" else load_rogues()[name].outcomes


def test_every_attack_has_one_row() -> None:
    numbers = [row.number for row in ROWS]
    assert len(set(numbers)) == len(numbers)
    counted = [int(number) for number in numbers if number.isdigit()]
    assert counted == list(range(1, len(counted) + 1)) and len(counted) >= CATALOGUE + 10
    assert len({row.attack for row in ROWS}) == len(ROWS)


def test_every_rogue_is_named_and_exists() -> None:
    named = {rogue for row in ROWS for rogue in row.rogues}
    assert named == FILES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_a_row_says_what_its_rogues_say(row: Row) -> None:
    assert len(row.stopped_by) >= 5
    expected = frozenset(outcome.value for rogue in row.rogues for outcome in outcomes_of(rogue))
    assert row.outcomes == expected


def test_what_a_judge_does_without_exists() -> None:
    assert set(without.CLAIMS.values()) <= set(CLAIMS) and set(without.RULES.values()) <= set(RULES)
    lines = without.CHECKS | without.MORE_CHECKS
    assert set().union(*lines.values()) <= set(CHECKS)
    named = {*without.CLAIMS, *without.RULES, *without.IMPORTS, *without.TYPES}
    assert {f"host/{name}" for name in named} <= FILES
    assert {f"device/{name}" for name in lines} <= FILES
