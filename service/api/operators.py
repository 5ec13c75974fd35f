"""Operators: the catalogue, and those that were submitted with a search."""

from typing import Annotated

from fastapi import APIRouter, Path

from service.api import schemas
from service.api.paging import Cursor, Limit, Page, decode, page
from service.api.problems import PROBLEMS
from service.api.wiring import Running
from workers.protocol import Operator

router = APIRouter(prefix="/operators", tags=["operators"], responses=PROBLEMS)


@router.get("")
async def find(running: Running, cursor: Cursor = None, limit: Limit = 50) -> Page[schemas.OperatorSummary]:
    """Operators by name. A catalogue name always means the catalogue's."""
    catalogue = running.operators()
    submitted = {
        record.name: Operator.model_validate_json(record.document) for record in await running.store.operators.list()
    }
    after = decode(cursor, str)
    named = sorted({**submitted, **catalogue}.items())
    rest = [operator for name, operator in named if after is None or name > after[0]]
    return page(
        rest,
        limit,
        lambda operator: (operator.name,),
        lambda operator: schemas.OperatorSummary.of(operator, catalogue=operator.name in catalogue),
    )


@router.get("/{name}")
async def show(name: Annotated[str, Path(pattern=r"^[a-z][a-z0-9_]{0,63}$")], running: Running) -> Operator:
    """One operator in full, with its reference and seed kernels."""
    catalogue = running.operators()
    if name in catalogue:
        return catalogue[name]
    return Operator.model_validate_json((await running.store.operators.latest(name)).document)
