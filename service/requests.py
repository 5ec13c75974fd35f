"""Request models. They check shape and bounds; the coordinator checks names against the tables."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    RootModel,
    StringConstraints,
    Tag,
    model_validator,
)

from archive.records import PRIORITY
from kernelreef.former import ReadsFormerNames
from workers.protocol import MAX_SOURCE_BYTES, Release

Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)]
Label = Annotated[str, StringConstraints(strip_whitespace=True, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
SearchTag = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[^\s,\x00-\x1f\x7f]+$")]
SearchTags = Annotated[
    tuple[SearchTag, ...], Field(max_length=16), AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))
]
Notes = Annotated[str, StringConstraints(strip_whitespace=True, max_length=4000)]


def _form(operator: object) -> str | None:
    if isinstance(operator, str):
        return "name"
    return "spec" if isinstance(operator, Mapping) else None


OperatorRequest = Annotated[
    Annotated[Name, Tag("name")] | Annotated[dict[str, JsonValue], Tag("spec")],
    Discriminator(
        _form, custom_error_type="operator_form", custom_error_message="Write a catalogue name, or a spec as an object"
    ),
]


class LlmSettings(BaseModel):
    """Language models that a search may ask, agents that may work for it, and limits on their cost. None is no limit.

    Attributes:
        backends: Models that the emitter `llm` asks, names from `backends.toml`.
        agents: Agents that the emitter `agent` starts: backends of the kind `command`.
        strategies: Allowed strategies; all if empty.
        calls: Maximum number of calls.
        tokens: Maximum number of tokens, prompts and answers together.
        usd: Maximum cost in US dollars; each backend needs a known price.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    backends: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    agents: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    strategies: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    calls: int | None = Field(default=None, ge=1, le=10_000_000)
    tokens: int | None = Field(default=None, ge=1, le=10**13)
    usd: float | None = Field(default=None, gt=0, le=1_000_000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _asks_any(self) -> Self:
        if not self.backends and not self.agents:
            raise ValueError("name at least one backend, or one agent")
        if self.agents and (self.tokens is not None or self.usd is not None):
            raise ValueError("an agent pays for its models itself: limit it by calls, not by tokens or usd")
        return self


class StopRules(ReadsFormerNames):
    """Rules that end a search before its evaluations are used up; the first one met ends it.

    Attributes:
        seconds: Seconds of running time since the first verdict. Pauses and time without a coordinator do not count.
            A search without a verdict ends after five times as long, or ten minutes if that is longer.
        device_seconds: Seconds that its reports took on their devices; on a card, GPU-seconds including all checks.
        plateau: Number of evaluations in a row without a better kernel on any device.
        speedup: Objective that the best kernel of some device has to reach.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    former: ClassVar[Mapping[str, str]] = {"device_seconds": "judging_s"}

    seconds: float | None = Field(default=None, gt=0)
    device_seconds: float | None = Field(default=None, gt=0)
    plateau: int | None = Field(default=None, ge=1, le=1_000_000)
    speedup: float | None = Field(default=None, gt=0)


class Selection(BaseModel):
    """Options that decide how a search chooses its proposals.

    Attributes:
        bandit: True if emitters get turns by their gain per cost; otherwise all get equally many.
        screening: True if a surrogate model, fitted to results, chooses among all edits of the best elites.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bandit: bool = True
    screening: bool = False


class SearchRequest(ReadsFormerNames):
    """Search to run.

    Attributes:
        operator: Name from the catalogue, or an operator spec in its JSON form, with sources inline.
        devices: Devices to judge on, with an archive each. All share one compile target. `cuda` is the one hardware
            class of the service's workers.
        emitters: Emitters that propose candidates.
        axes: Descriptors that span the grid, in order; None for the default axes.
        evaluations: Maximum number of evaluations: proposed candidates without duplicates.
        seed: Random seed of proposals, never of input values.
        priority: Share of turns and of candidates in flight, relative to its owner's other searches.
        llm: Language models to use and limits on their cost; None if no model may be asked.
        stop: Rules that end the search before its evaluations are used up.
        selection: Options that decide how proposals are chosen.
        name: Name for people; it need not be unique.
        tags: Words that the search is found by, without spaces or commas.
        notes: Text about the search.
        compiler: Release of Triton that compiles the candidates, such as 3.9; None for any.
        admit: True to go on if mutation testing fails the operator; everything found is marked. Over REST it needs the
            scope `admin`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"operator": "rmsnorm", "devices": ["model:sm_90"], "emitters": ["tune", "rewrite"]}]
        },
    )

    former: ClassVar[Mapping[str, str]] = {"evaluations": "budget", "selection": "choosing"}

    operator: OperatorRequest
    devices: Names = ("model:sm_90",)
    emitters: Names = ("tune", "rewrite")
    axes: Names | None = None
    evaluations: int = Field(default=200, ge=1, le=1_000_000)
    seed: int = Field(default=0, ge=0, lt=2**63)
    priority: int = Field(default=PRIORITY, ge=1, le=9)
    llm: LlmSettings | None = None
    stop: StopRules | None = None
    selection: Selection = Selection()
    name: Label = ""
    tags: SearchTags = ()
    notes: Notes = ""
    admit: bool = False
    compiler: Release | None = None


class SearchChange(ReadsFormerNames):
    """Changes to a search. None keeps a value. Name, tags and notes can be changed after its end, too.

    Attributes:
        evaluations: Maximum number of evaluations, those already made included.
        priority: Share of turns and of candidates in flight, relative to its owner's other searches.
        stop: Rules that replace the present ones; an empty object leaves the evaluations as the only limit.
        name: Name for people; empty for none.
        tags: Tags that replace the present ones.
        notes: Text that replaces the present notes.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"evaluations": 400}, {"priority": 9}, {"stop": {"plateau": 50}}, {"tags": ["paper"]}]
        },
    )

    former: ClassVar[Mapping[str, str]] = {"evaluations": "budget"}

    evaluations: int | None = Field(default=None, ge=1, le=1_000_000)
    priority: int | None = Field(default=None, ge=1, le=9)
    stop: StopRules | None = None
    name: Label | None = None
    tags: SearchTags | None = None
    notes: Notes | None = None

    @model_validator(mode="after")
    def _of_something(self) -> Self:
        if not self.steers and not self.labels:
            raise ValueError(f"name at least one change: {', '.join(type(self).model_fields)}")
        return self

    @property
    def steers(self) -> bool:
        """True if the change concerns how the search goes on."""
        return self.evaluations is not None or self.priority is not None or self.stop is not None

    @property
    def labels(self) -> bool:
        """True if the name, the tags or the notes change."""
        return self.name is not None or self.tags is not None or self.notes is not None


class PinRequest(BaseModel):
    """Cell or candidate, exactly one of them, that a search should prefer as a parent.

    Attributes:
        device: Device whose archive is meant; None for the search's first.
        cell: Number of a cell, whose elite is preferred as a parent.
        candidate: Id of a candidate, whole or short, which is preferred as long as it holds a cell.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"cell": 17}, {"candidate": "0199a2b0-7c1e-7d3f-8a45-6b7c8d9e0f12", "device": "model:sm_90"}]
        },
    )

    device: Name | None = None
    cell: int | None = Field(default=None, ge=0, lt=2**31)
    candidate: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{6,36}$")] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.cell is None) == (self.candidate is None):
            raise ValueError("name either a cell or a candidate")
        return self


class HintRequest(BaseModel):
    """Hint for the models that write candidates. Prompts quote it as a person's words; it changes no rule."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"text": "Rows fit into shared memory; try one pass over them."}]},
    )

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]


class SourceRequest(BaseModel):
    """Source of a kernel to check against a search: it is traced and compiled, and not evaluated.

    Attributes:
        source: Python source with the operator's entry, as a seed of it has.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"examples": [{"source": "import torch\n# a whole kernel\n"}]}
    )

    source: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SOURCE_BYTES)]


class KernelSubmission(SourceRequest):
    """Kernel that becomes a candidate of a search: one of its evaluations, with the emitter `agent`.

    Attributes:
        note: One line on what was changed and why.
        parents: Candidates of the same search that it was made from, whole ids or short ones.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"source": "import torch\n# a whole kernel\n", "note": "8 warps for wide rows"}]
        },
    )

    note: Note = ""
    parents: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{6,36}$")], ...], Field(max_length=4)
    ] = ()


class OperatorSubmission(RootModel[dict[str, JsonValue]]):
    """Operator spec in its JSON form, with sources inline. `docs/reference/operator-spec.md` explains each key."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "double",
                    "entry": "double",
                    "reference": "def double(x):\n    return x * 2\n",
                    "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
                    "outputs": [{"name": "y", "dtype": "float32"}],
                    "shapes": [{"N": 1048576}],
                    "ranges": {"N": [1, 1048576]},
                }
            ]
        }
    )
