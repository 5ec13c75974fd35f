"""Entries of knowledge as documents: what REST shows and takes, and what files hold. Text in them is hostile text."""

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, Self

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from archive import records
from archive.records import JOBS_KEPT, MOVE_CHARS, SENTENCE_CHARS, KnowledgeState, NewKnowledgeEntry
from kernelreef.models import Provenance
from service.errors import InvalidInput
from service.evaluation.figure_labels import provenance
from service.knowledge.moves import plain
from workers.protocol import Device

MOST_GIVEN = 1000
"""Entries in one file or request: more than a year of searches taught here."""
MOST_FINDINGS = 1000
"""Searches that may have something to say about one entry."""


def _device(name: str) -> str:
    return Device.parse(name).name


def _text(most: int) -> StringConstraints:
    return StringConstraints(min_length=1, max_length=most)


Line = AfterValidator(plain)
Move = Annotated[str, _text(MOVE_CHARS), Line]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=SENTENCE_CHARS), Line]
Trait = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,32}(:[a-z0-9_]{1,32})?$")]
Bound = Literal["memory", "compute", "latency"]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Job = Annotated[str, StringConstraints(max_length=256), Line]
Reading = bool | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float | Annotated[str, _text(32), Line] | None
Readings = Annotated[dict[Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,32}$")], Reading], Field(max_length=16)]


class KnowledgeGain(BaseModel):
    """The parent's time over the child's, with its bounds; all above 0."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float = Field(gt=0, allow_inf_nan=False)
    mid: float = Field(gt=0, allow_inf_nan=False)
    high: float = Field(gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.mid <= self.high:
            raise ValueError("a gain needs low <= mid <= high")
        return self


class KnowledgeFinding(BaseModel):
    """What one search says of an entry. `gain`, `jobs`, `before`, `after` and `example` are of its best pair."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    search: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")]
    operator: Annotated[str, StringConstraints(max_length=64), Line] = ""
    successes: Count = 0
    failures: Count = 0
    wins: Count = 0
    losses: Count = 0
    gain: KnowledgeGain | None = None
    jobs: Annotated[tuple[Job, ...], Field(max_length=JOBS_KEPT)] = ()
    before: Readings = {}
    after: Readings = {}
    example: Annotated[str, StringConstraints(max_length=SENTENCE_CHARS), Line] = ""

    @classmethod
    def of(cls, finding: records.KnowledgeFindingRecord) -> Self:
        """A finding as a document."""
        said = {name: value for name, value in vars(finding).items() if name not in ("low", "mid", "high")}
        return cls.model_validate({**said, "gain": _gain(finding)})

    def record(self) -> records.KnowledgeFindingRecord:
        """The finding as the archive keeps it."""
        gain = self.gain
        return records.KnowledgeFindingRecord(
            **self.model_dump(exclude={"gain"}),
            low=gain.low if gain else None,
            mid=gain.mid if gain else None,
            high=gain.high if gain else None,
        )


class ImportedEntry(BaseModel):
    """An entry as a person hands it in. What else an exported entry says is counted anew from its findings."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    move: Move
    traits: Annotated[tuple[Trait, ...], Field(min_length=1, max_length=16)]
    bottleneck: Bound
    device: Annotated[str, StringConstraints(max_length=64), AfterValidator(_device)]
    sentence: Sentence
    state: KnowledgeState = KnowledgeState.ACTIVE
    held: bool = False
    findings: Annotated[tuple[KnowledgeFinding, ...], Field(max_length=MOST_FINDINGS)] = ()
    id: str | None = None

    @model_validator(mode="after")
    def _same_id(self) -> Self:
        if self.id not in (None, self.entry.id):
            raise ValueError(
                f"the id of an entry about this is {self.entry.id}, not {self.id[:64]}: leave it out of a new entry"
            )
        return self

    @property
    def entry(self) -> NewKnowledgeEntry:
        """What it is about."""
        return NewKnowledgeEntry(self.move, self.traits, self.bottleneck, self.device, self.sentence)

    def record(self) -> records.ImportedEntryRecord:
        """The entry as the archive takes it."""
        return records.ImportedEntryRecord(
            self.entry, self.state, self.held, tuple(finding.record() for finding in self.findings)
        )


class KnowledgeEntry(BaseModel):
    """What is known of one move: on operators of these traits, with that bottleneck, on that device.

    `successes` and `failures` count pairs of parent and child that differ by the move; `wins` and `losses` count
    proposals whose prompt carried the entry. `gain` is the largest by its lower bound, `jobs` are the reports that the
    best pairs rest on, child before parent. `held`: a person decided on `state`, and outcomes no longer do.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    move: str
    traits: tuple[str, ...]
    bottleneck: str
    device: str
    provenance: Provenance
    sentence: str
    state: KnowledgeState
    held: bool
    worth: float
    successes: int
    failures: int
    wins: int
    losses: int
    gain: KnowledgeGain | None
    jobs: tuple[str, ...]
    before: dict[str, Reading]
    after: dict[str, Reading]
    example: str
    operator: str
    created_at: datetime
    updated_at: datetime
    findings: tuple[KnowledgeFinding, ...]

    @classmethod
    def of(cls, entry: records.KnowledgeEntryRecord, findings: Iterable[records.KnowledgeFindingRecord]) -> Self:
        """An entry with all that was said about it."""
        said = {name: value for name, value in vars(entry).items() if name not in ("low", "mid", "high")}
        return cls(
            **said,
            gain=_gain(entry),
            provenance=provenance(entry.device),
            findings=tuple(KnowledgeFinding.of(finding) for finding in findings),
        )


class KnowledgeChange(BaseModel):
    """What a person changes of an entry: its sentence, its state, or both. A state set so is `held`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"examples": [{"state": "retired"}, {"sentence": "…"}]}
    )

    sentence: Sentence | None = None
    state: KnowledgeState | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.sentence is None and self.state is None:
            raise ValueError("give a sentence, a state or both")
        return self


EXAMPLE: dict[str, JsonValue] = {
    "move": "one pass over the row",
    "traits": ["reduction"],
    "bottleneck": "memory",
    "device": "h200",
    "sentence": "Rows that fit into registers are read once.",
}
"""An entry for the OpenAPI document."""


class KnowledgeEntries(BaseModel):
    """Entries to keep, as `GET` lists them or `reef knowledge export` writes them."""

    model_config = ConfigDict(frozen=True, extra="ignore", json_schema_extra={"examples": [{"entries": [EXAMPLE]}]})

    entries: Annotated[tuple[ImportedEntry, ...], Field(max_length=MOST_GIVEN)]


class KnowledgeImportResult(BaseModel):
    """How many entries were kept."""

    model_config = ConfigDict(frozen=True)

    entries: int


def to_text(entries: Sequence[KnowledgeEntry], form: Literal["json", "toml"]) -> str:
    """Entries as a file's text. TOML has no null: what is unknown is left out of it."""
    if form == "json":
        return json.dumps({"entries": [entry.model_dump(mode="json") for entry in entries]}, indent=1) + "\n"
    return tomli_w.dumps({"entries": [_without_null(entry.model_dump(mode="json")) for entry in entries]})


def from_text(text: str, form: Literal["json", "toml"]) -> KnowledgeEntries:
    """Entries out of a file's text.

    Raises:
        BadInput: If it cannot be right; names the field.
    """
    try:
        return KnowledgeEntries.model_validate(json.loads(text) if form == "json" else tomllib.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(first["msg"], ".".join(str(part) for part in first["loc"])) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"this is no {form.upper()}: {error}", "FILE") from error


def _gain(said: records.KnowledgeFindingRecord | records.KnowledgeEntryRecord) -> KnowledgeGain | None:
    if said.low is None or said.mid is None or said.high is None or not math.isfinite(said.high):
        return None
    return KnowledgeGain(low=said.low, mid=said.mid, high=said.high)


def _without_null(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value
