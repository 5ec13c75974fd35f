"""Descriptors: what the axes are, and what they tell apart among a search's kernels."""

from fastapi import APIRouter

from archive.descriptors import DESCRIPTORS
from service.analysis.axis_statistics import AxisDescription, AxisStatistics, take_census
from service.api.archives import OnDevice
from service.api.dependencies import Named, Running, needs
from service.api.problems import PROBLEMS
from service.security.scopes import Scope

router = APIRouter(tags=["descriptors"], responses=PROBLEMS)


@router.get("/descriptors", dependencies=[needs(Scope.READ)])
async def find() -> list[AxisDescription]:
    """Every descriptor that a grid can be spanned by."""
    return [AxisDescription.of(descriptor) for descriptor in DESCRIPTORS.values()]


@router.get("/searches/{id}/census", dependencies=[needs(Scope.READ)])
async def take(search: Named, running: Running, device: OnDevice) -> AxisStatistics:
    """What the axes tell apart among the kernels of a search. Reads every correct one of them."""
    return await take_census(running.store, search, device)
