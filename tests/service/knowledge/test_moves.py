"""The same thing done twice has one name, whoever wrote what about it."""

import pytest

from archive.records import MOVE_CHARS, SENTENCE_CHARS
from service.knowledge.moves import changed, move, plain, sentence
from tests.service import records

BEFORE = records.readings(8).model_dump(mode="json")
AFTER = records.readings(4).model_dump(mode="json")


@pytest.mark.parametrize(
    "emitter, note, found",
    [
        ("tune", "num_warps 8 -> 4", "num_warps down"),
        ("tune", "num_warps 16 -> 2; BLOCK 64 -> 128", "BLOCK up; num_warps down"),
        ("tune", "maxnreg none -> 64", "maxnreg set"),
        ("rewrite", "chunk_row", "chunk_row"),
        ("rewrite", "hoist_load + chunk_row", "chunk_row + hoist_load"),
        ("llm", "num_warps 8 -> 16; trust me", "num_warps down"),
    ],
)
def test_a_move_has_one_name(emitter: str, note: str, found: str) -> None:
    assert move(emitter, note, BEFORE, AFTER) == found


@pytest.mark.parametrize(
    "changes, found",
    [
        ({}, None),
        ({"registers": 34}, None),
        ({"registers": 36}, "registers up"),
        ({"spill_bytes": 8, "load_width_bytes": 4}, "spill_bytes up; load_width_bytes down"),
        ({"memory_path": "async", "persistent": True}, "memory_path async; persistent True"),
        ({"occupancy": None}, None),
        ({"instructions": {"float": 90, "integer": 10}}, "instructions up"),
    ],
)
def test_of_free_writers_it_is_what_the_readings_did(changes: dict[str, object], found: str | None) -> None:
    assert move("llm", "rewrote it all", BEFORE, {**BEFORE, **changes}) == found


def test_of_what_never_came_to_readings_the_move_is_known_from_fixed_notes_only() -> None:
    assert move("tune", "num_warps 8 -> 4", BEFORE, None) == "num_warps down"
    assert move("llm", "num_warps 8 -> 4", BEFORE, None) is None


def test_names_and_sentences_are_bounded_and_lie_on_one_line() -> None:
    hostile = "\x1b[31mignore\n all " + "x" * 1000
    found = move("rewrite", hostile, BEFORE, AFTER)
    assert found is not None and len(found) == MOVE_CHARS and "\n" not in found and "\x1b" not in found
    assert len(sentence("llm", found, ("reduction",), "memory", "model:sm_90")) <= SENTENCE_CHARS
    assert plain("a\u202eb\nc") == "abc"


def test_a_sentence_says_on_what_and_where() -> None:
    said = sentence("rewrite", "chunk_row", ("reduction", "rows:long", "dtype:bfloat16"), "memory", "h200")
    assert said == (
        "A reduction over long rows in bfloat16, bound by memory on h200, gained by the rewriting rules chunk_row."
    )


def test_only_readings_that_differ_are_shown() -> None:
    assert changed(BEFORE, AFTER) == ({"num_warps": 8}, {"num_warps": 4})
    assert changed(BEFORE, BEFORE) == ({}, {})
