"""Entries survive the way through a file; what cannot be right is named by its field."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from archive.records import KnowledgeEntryRecord, KnowledgeFindingRecord, KnowledgeState, NewKnowledgeEntry
from service.errors import InvalidInput
from service.knowledge.schemas import ImportedEntry, KnowledgeChange, KnowledgeEntry, from_text, to_text

ABOUT = NewKnowledgeEntry("num_warps down", ("reduction", "rows:long"), "memory", "model:sm_90", "Fewer warps helped.")
AT = datetime(2026, 1, 2, tzinfo=UTC)
FINDING = KnowledgeFindingRecord(
    "01990000-0000-7000-8000-000000000001",
    "rmsnorm",
    successes=2,
    low=1.1,
    mid=1.2,
    high=1.3,
    jobs=("a", "b"),
    before={"num_warps": 8, "memory_path": None},
    after={"num_warps": 4, "memory_path": "async"},
    example="num_warps 8 -> 4",
)
HAND_WRITTEN = {**{name: getattr(ABOUT, name) for name in ("move", "bottleneck", "device", "sentence")}}


def entry(**changes: object) -> KnowledgeEntry:
    values: dict[str, object] = {
        **{name: getattr(ABOUT, name) for name in ("id", "move", "traits", "bottleneck", "device", "sentence")},
        **{name: getattr(FINDING, name) for name in vars(FINDING) if name != "search"},
        **{"state": KnowledgeState.ACTIVE, "held": False, "worth": 0.1, "created_at": AT, "updated_at": AT},
    }
    return KnowledgeEntry.of(KnowledgeEntryRecord(**{**values, **changes}), [FINDING])  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["json", "toml"])
def test_a_file_brings_back_what_was_exported(form: str) -> None:
    text = to_text([entry(state=KnowledgeState.RETIRED, held=True)], form)  # type: ignore[arg-type]
    (given,) = from_text(text, form).entries  # type: ignore[arg-type]
    found = given.record()
    assert (found.entry, found.state, found.held) == (ABOUT, KnowledgeState.RETIRED, True)
    (finding,) = found.findings
    assert (finding.low, finding.jobs, finding.after) == (1.1, ("a", "b"), FINDING.after)
    assert {name: value for name, value in finding.before.items() if value is not None} == {"num_warps": 8}


def test_an_entry_says_whether_it_was_measured() -> None:
    assert entry().provenance == "predicted"
    assert entry(device="h200").provenance == "measured"
    assert entry(low=None, mid=None, high=None).gain is None


def test_an_entry_by_hand_needs_only_what_it_is_about() -> None:
    (given,) = from_text(
        json.dumps({"entries": [{**HAND_WRITTEN, "traits": ["reduction", "rows:long"]}]}), "json"
    ).entries
    assert given.entry == ABOUT and given.findings == ()


@pytest.mark.parametrize(
    "change, field",
    [
        ({"id": "0" * 24}, "entries.0"),
        ({"device": "h2000"}, "entries.0.device"),
        ({"traits": []}, "entries.0.traits"),
        ({"traits": ["Reduction!"]}, "entries.0.traits.0"),
        ({"bottleneck": "everything"}, "entries.0.bottleneck"),
        ({"sentence": "x" * 401}, "entries.0.sentence"),
        ({"sentence": "  "}, "entries.0.sentence"),
        ({"move": "x" * 201}, "entries.0.move"),
        ({"findings": [{"search": "../x"}]}, "entries.0.findings.0.search"),
        ({"findings": [{"search": "a", "gain": {"low": 2, "mid": 1, "high": 3}}]}, "entries.0.findings.0.gain"),
        ({"findings": [{"search": "a", "successes": -1}]}, "entries.0.findings.0.successes"),
        ({"findings": [{"search": "a", "before": {"x" * 40: 1}}]}, "entries.0.findings.0.before"),
    ],
)
def test_what_cannot_be_right_is_named(change: dict[str, object], field: str) -> None:
    document = {"entries": [{**HAND_WRITTEN, "traits": ["reduction"], **change}]}
    with pytest.raises(InvalidInput) as raised:
        from_text(json.dumps(document), "json")
    assert (raised.value.field or "").startswith(field)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"entries": 7}', "{}"])
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        from_text(text, "json")
    with pytest.raises(InvalidInput):
        from_text("= =", "toml")


def test_text_is_put_on_one_line() -> None:
    given = ImportedEntry.model_validate({**HAND_WRITTEN, "traits": ["reduction"], "sentence": "a\n\x1b[31mb\u202e"})
    assert given.sentence == "a[31mb"


def test_a_change_changes_something() -> None:
    assert KnowledgeChange(state=KnowledgeState.RETIRED).sentence is None
    with pytest.raises(ValidationError):
        KnowledgeChange()
