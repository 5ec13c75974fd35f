"""Operators of the catalogue, submitted operators, and their mutation reports."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response, status

from archive.errors import RecordNotFound as Gone
from kernelreef import models
from service.api import builders
from service.api.dependencies import Running, needs
from service.api.paging import Cursor, Limit, Page, decode, page
from service.api.problems import PROBLEMS
from service.errors import NotFound
from service.operators.catalogue import parse_operator
from service.operators.naming import find_operator, keep_operator
from service.requests import OperatorSubmission
from service.security.scopes import Scope
from workers.protocol import Operator

router = APIRouter(prefix="/operators", tags=["operators"], responses=PROBLEMS)

SHOW = "operator"
"""Name of the route that shows one operator."""

Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9_]{0,63}$", description="A name, or a digest.")]


@router.get("", dependencies=[needs(Scope.READ)])
async def find(
    running: Running,
    catalogue: Annotated[
        bool | None, Query(description="True: only catalogue operators. False: only submitted ones.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[models.OperatorSummary]:
    """List operators by name. A name in the catalogue always means the catalogue's operator."""
    key = decode(cursor, str)
    after = key[0] if key else None
    own = running.operators()
    found: dict[str, Operator] = {}
    if not catalogue:
        records = await running.store.operators.list(limit=limit + 1 + len(own), after=after)
        found |= {r.name: Operator.model_validate_json(r.document) for r in records if r.name not in own}
    if catalogue is not False:
        found |= {name: operator for name, operator in own.items() if after is None or name > after}
    named = islice(sorted(found.items()), limit + 1)
    return page(
        [operator for _, operator in named],
        limit,
        lambda operator: (operator.name,),
        lambda operator: builders.operator_summary_of(operator, catalogue=operator.name in own),
    )


@router.post("", status_code=status.HTTP_201_CREATED, dependencies=[needs(Scope.SUBMIT)])
async def submit(
    body: OperatorSubmission, request: Request, response: Response, running: Running
) -> models.OperatorSummary:
    """Store an operator, so that searches can use its name or digest. A name means the newest operator of that name."""
    operator = parse_operator(body.root)
    await keep_operator(running.store, running.operators(), operator)
    response.headers["Location"] = request.app.url_path_for(SHOW, name=operator.digest)
    return builders.operator_summary_of(operator, catalogue=operator.name in running.operators())


@router.get("/{name}", name=SHOW, dependencies=[needs(Scope.READ)])
async def show(name: Name, running: Running) -> Operator:
    """Return one operator in full, with its reference and seed kernels."""
    return await find_operator(running.store, running.operators(), name)


@router.get("/{name}/mutation-report", dependencies=[needs(Scope.READ)])
async def mutation_report(name: Name, running: Running) -> builders.MutationResult:
    """Return the mutation report of the last search: results for trivial answers, mutants and right answers."""
    operator = await find_operator(running.store, running.operators(), name)
    try:
        record = await running.store.operators.mutation_report(operator.digest)
    except Gone as error:
        raise NotFound(str(error)) from error
    return builders.mutation_result_of(operator, record)
