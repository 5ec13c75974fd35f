"""What a person asks for. Shape and bounds are checked here, names against the tables by the coordinator."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import (
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

Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)]


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
    """Which language models a search may ask, how, and what they may cost. A limit of None is none.

    Attributes:
        backends: Names from `backends.toml`.
        strategies: What may be tried with them; all if empty.
        calls: Most calls.
        tokens: Most tokens, of prompts and answers together.
        usd: Most US dollars; needs a known price for each backend.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    backends: Names
    strategies: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    calls: int | None = Field(default=None, ge=1, le=10_000_000)
    tokens: int | None = Field(default=None, ge=1, le=10**13)
    usd: float | None = Field(default=None, gt=0, le=1_000_000, allow_inf_nan=False)


class StopRules(BaseModel):
    """When a search ends before its evaluations are used: as soon as one of the rules that are given is met.

    Attributes:
        seconds: Since it was asked for.
        judging_s: Seconds that its reports took on their devices; on a card, GPU-seconds with all that checking takes.
        plateau: Evaluations in a row after which no device's best has become better.
        speedup: Objective that the best kernel of any device has reached.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seconds: float | None = Field(default=None, gt=0)
    judging_s: float | None = Field(default=None, gt=0)
    plateau: int | None = Field(default=None, ge=1, le=1_000_000)
    speedup: float | None = Field(default=None, gt=0)


class Selection(BaseModel):
    """How a search chooses what to try.

    Attributes:
        bandit: Whether emitters get turns by what they brought for their cost; without it all get as many.
        screening: Whether a model of what was judged chooses among all ways on from the best elites.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bandit: bool = True
    screening: bool = False


class SearchRequest(BaseModel):
    """One search to run.

    Attributes:
        operator: A name from the catalogue, or an operator spec in its JSON form, with sources inline.
        devices: Where candidates are judged; one archive each. All share one compile target.
        emitters: Where candidates come from.
        axes: Descriptors that span the grid, in order; None for the default axes.
        budget: Evaluations allowed: candidates proposed, duplicates not counted.
        seed: Drives proposals, never input values.
        priority: Its share of turns and places beside its owner's other searches.
        llm: What emitters that ask language models may use and spend; None if none may be asked.
        stop: When it ends before its evaluations are used.
        choosing: Which parts choose what it tries.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"operator": "rmsnorm", "devices": ["model:sm_90"], "emitters": ["tune", "rewrite"]}]
        },
    )

    operator: OperatorRequest
    devices: Names = ("model:sm_90",)
    emitters: Names = ("tune", "rewrite")
    axes: Names | None = None
    budget: int = Field(default=200, ge=1, le=1_000_000)
    seed: int = Field(default=0, ge=0, lt=2**63)
    priority: int = Field(default=PRIORITY, ge=1, le=9)
    llm: LlmSettings | None = None
    stop: StopRules | None = None
    choosing: Selection = Selection()


class SearchChange(BaseModel):
    """What may be changed of a search that has not ended.

    Attributes:
        budget: Evaluations allowed from now on, those that were made included; None leaves it.
        priority: Its share of turns and places beside its owner's other searches; None leaves it.
        stop: The rules that end it from now on, in place of those it has; without a rule in it, only its evaluations
            end the search. None leaves them.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"budget": 400}, {"priority": 9}, {"stop": {"plateau": 50}}]},
    )

    budget: int | None = Field(default=None, ge=1, le=1_000_000)
    priority: int | None = Field(default=None, ge=1, le=9)
    stop: StopRules | None = None

    @model_validator(mode="after")
    def _of_something(self) -> Self:
        if self.budget is None and self.priority is None and self.stop is None:
            raise ValueError("say what to change: the budget, the priority or the rules that stop it")
        return self


class PinRequest(BaseModel):
    """A cell or a candidate that a search should go on from more often. Exactly one of the two.

    Attributes:
        device: Which archive of the search; None for its first device's.
        cell: Number of a cell: whoever holds it is preferred as a parent.
        candidate: Id of a candidate: it is preferred as long as it holds a cell.
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
    candidate: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.cell is None) == (self.candidate is None):
            raise ValueError("name either a cell or a candidate")
        return self


class HintRequest(BaseModel):
    """What the models that write candidates should know. It is handed to them as a person's words, and changes no rule.

    Attributes:
        text: The hint.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"text": "Rows fit into shared memory; try one pass over them."}]},
    )

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class OperatorSubmission(RootModel[dict[str, JsonValue]]):
    """An operator spec in its JSON form, with sources inline. `docs/reference/operator-spec.md` explains each key."""

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
