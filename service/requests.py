"""What a person asks for. Shape and bounds are checked here, names against the tables by the coordinator."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, StringConstraints, Tag

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


class SearchRequest(BaseModel):
    """One search to run.

    Attributes:
        operator: A name from the catalogue, or an operator spec in its JSON form, with sources inline.
        devices: Where candidates are judged; one archive each. All share one compile target.
        emitters: Where candidates come from.
        axes: Descriptors that span the grid, in order; None for the default axes.
        budget: Evaluations allowed: candidates proposed, duplicates not counted.
        seed: Drives proposals, never input values.
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
