"""Descriptors: the axes that a grid can have."""

from typing import Self

from fastapi import APIRouter
from pydantic import BaseModel

from archive.descriptors import DESCRIPTORS, Descriptor
from service.api.dependencies import needs
from service.api.problems import PROBLEMS
from service.security.scopes import Scope

router = APIRouter(tags=["descriptors"], responses=PROBLEMS)


class Axis(BaseModel):
    """A descriptor: bins by fixed edges, and what a kernel in each looks like."""

    name: str
    unit: str
    meaning: str
    edges: list[float]
    labels: list[str]

    @classmethod
    def of(cls, descriptor: Descriptor) -> Self:
        """A descriptor of the table."""
        return cls(
            name=descriptor.name,
            unit=descriptor.unit,
            meaning=descriptor.meaning,
            edges=list(descriptor.edges),
            labels=list(descriptor.labels),
        )


@router.get("/descriptors", dependencies=[needs(Scope.READ)])
async def find() -> list[Axis]:
    """Every descriptor that a grid can be spanned by."""
    return [Axis.of(descriptor) for descriptor in DESCRIPTORS.values()]
