"""Pages of operators, with the results of mutation testing."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Response
from markupsafe import Markup

from archive.errors import RecordNotFound
from archive.store import Store
from service.api.dependencies import Running, needs
from service.dashboard.rendering import HtmlPage, respond
from service.dashboard.routing import Framed, pages
from service.dashboard.sources import highlighted
from service.operators.naming import find_operator
from service.security.scopes import Scope
from workers.protocol import MutationReport, Operator

router = pages()

SHOWN = 200
"""Maximum number of submitted operators on the page; each name appears once."""


@dataclass(frozen=True)
class MutationSummary:
    """Mutation report of an operator; `counts` are its answers by kind and verdict."""

    gate: MutationReport
    counts: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class OperatorRow:
    """An operator in the list."""

    operator: Operator
    catalogue: bool
    verdict: str | None
    kill_rate: float | None


@dataclass(frozen=True)
class OperatorList(HtmlPage):
    """Every operator by name."""

    template = "operators.html"
    section = "/operators"
    heading = "Operators"

    rows: tuple[OperatorRow, ...]


@dataclass(frozen=True)
class OperatorPage(HtmlPage):
    """One operator in full."""

    template = "operator.html"
    section = "/operators"

    operator: Operator
    catalogue: bool
    reference: tuple[Markup, ...]
    seeds: tuple[tuple[Markup, ...], ...]
    tested: MutationSummary | None

    @property
    def title(self) -> str:
        """Name of the operator."""
        return self.operator.name


@router.get("/operators", dependencies=[needs(Scope.READ)])
async def find(running: Running, frame: Framed) -> Response:
    """List all operators. A name in the catalogue always means the catalogue's operator."""
    catalogue = running.operators()
    submitted = await running.store.operators.list(limit=SHOWN)
    named = {record.name: Operator.model_validate_json(record.document) for record in submitted}
    shown = sorted({**named, **catalogue}.items())
    tried = await running.store.operators.mutation_reports_of([operator.digest for _, operator in shown])
    rows = []
    for name, operator in shown:
        gate = MutationReport.model_validate_json(tried[operator.digest].document) if operator.digest in tried else None
        verdict, rate = (gate.verdict, gate.kill_rate) if gate else (None, None)
        rows.append(OperatorRow(operator, name in catalogue, verdict, rate))
    return respond(OperatorList(tuple(rows)), frame)


@router.get("/operators/{name}", dependencies=[needs(Scope.READ)])
async def show(name: Annotated[str, Path(pattern=r"^[a-z0-9_]{1,64}$")], running: Running, frame: Framed) -> Response:
    """Show one operator: its contract, reference, seed kernels and mutation report."""
    operator = await find_operator(running.store, running.operators(), name)
    page = OperatorPage(
        operator=operator,
        catalogue=operator.name in running.operators(),
        reference=highlighted(operator.reference),
        seeds=tuple(highlighted(seed) for seed in operator.seeds),
        tested=await _tested(running.store, operator),
    )
    return respond(page, frame)


async def _tested(store: Store, operator: Operator) -> MutationSummary | None:
    try:
        record = await store.operators.mutation_report(operator.digest)
    except RecordNotFound:
        return None
    gate = MutationReport.model_validate_json(record.document)
    return MutationSummary(gate, Counter((entry.kind, entry.verdict) for entry in gate.entries))
