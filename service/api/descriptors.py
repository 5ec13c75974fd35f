"""Descriptors: the axes that a grid can have."""

from typing import Self

from fastapi import APIRouter
from pydantic import BaseModel

from archive.descriptors import DESCRIPTORS, Descriptor
from service.api.dependencies import needs
from service.api.paging import Cursor, Limit, Page, whole
from service.api.problems import PROBLEMS
from service.security.scopes import Scope

router = APIRouter(tags=["descriptors"], responses=PROBLEMS)


class AxisDescription(BaseModel):
    """A descriptor: bins with fixed edges, and a label per bin."""

    name: str
    unit: str
    meaning: str
    edges: list[float]
    labels: list[str]

    @classmethod
    def of(cls, descriptor: Descriptor) -> Self:
        """Make the document of a descriptor."""
        return cls(
            name=descriptor.name,
            unit=descriptor.unit,
            meaning=descriptor.meaning,
            edges=list(descriptor.edges),
            labels=list(descriptor.labels),
        )


@router.get("/descriptors", dependencies=[needs(Scope.READ)])
async def find(cursor: Cursor = None, limit: Limit = 50) -> Page[AxisDescription]:
    """List the descriptors that can be axes of a grid, by name."""
    return whole(DESCRIPTORS.values(), cursor, limit, lambda descriptor: descriptor.name, AxisDescription.of)
