"""Routes of candidates: one candidate, its parts on demand, its certificate, and the candidates of a search."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Query, Response

from archive.records import CANDIDATE_SORTS, SEED_EMITTER, CandidateFilter, CandidateRow, SearchRecord
from kernelreef.models import FinalistResult
from kernelreef.short_ids import brief
from service.api.dependencies import Id, Named, Running, needs
from service.api.paging import ID, Cursor, decode_sorted, encode
from service.certificates.certifier import Certifier
from service.certificates.document import Certificate
from service.dashboard.candidate import load_assembly, load_candidate, load_kernel
from service.dashboard.candidate_pairs import load_pair
from service.dashboard.rendering import HEADERS, HtmlPage, render_fragment, respond
from service.dashboard.routing import Framed, pages
from service.errors import InvalidInput
from service.evaluation.figure_labels import stamp_of
from service.security.scopes import Scope
from workers.protocol import Outcome, Report, Samples


@dataclass(frozen=True)
class PairedSamples:
    """Raw samples of one paired timing, microseconds per call; `beside` names the other side of the pair."""

    shape: str
    beside: str
    candidate_us: str
    other_us: str
    clocks_mhz: str


@dataclass(frozen=True)
class CertifiedPlan:
    """A launch plan in words."""

    shape: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class CertificatePage(HtmlPage):
    """A certificate, its parts in the order in which a sceptical reader checks them."""

    template = "certificate.html"
    section = "/"

    certificate: Certificate
    kernels: tuple[tuple[str, str], ...]
    plans: tuple[CertifiedPlan, ...]
    samples: tuple[PairedSamples, ...]

    @classmethod
    def of(cls, certificate: Certificate) -> "CertificatePage":
        """Make the page of a certificate."""
        return cls(
            certificate=certificate,
            kernels=tuple(certificate.bundle.cubins.items()),
            plans=tuple(CertifiedPlan(shape, lines[1:]) for shape, lines in certificate.words.items()),
            samples=paired_samples(certificate.verdict),
        )

    @property
    def finalist(self) -> FinalistResult:
        """Result of its examination as a finalist."""
        return stamp_of(self.certificate.examination)

    @property
    def title(self) -> str:
        """Operator and candidate of the certificate."""
        return f"Certificate of {self.certificate.operator.name} candidate {brief(self.certificate.origin.candidate)}"

    @property
    def address(self) -> str:
        """Address of the certificate as a file."""
        origin = self.certificate.origin
        where = f"variant={origin.variant}&device={self.certificate.device.name}"
        return f"/candidates/{origin.candidate}/certificate.json?{where}"


def paired_samples(report: Report) -> tuple[PairedSamples, ...]:
    """Collect the raw samples of every paired timing in a report."""
    found = []
    for shape in report.shapes:
        for beside, samples in (("pacer", shape.samples), ("incumbent", shape.rival_samples)):
            if samples is not None:
                found.append(_samples(shape.shape, beside, samples))
    return tuple(found)


def _samples(shape: str, beside: str, samples: Samples) -> PairedSamples:
    figures = (samples.candidate_us, samples.other_us, samples.clocks_mhz)
    mine, its, clocks = (", ".join(f"{figure:g}" for figure in each) for each in figures)
    return PairedSamples(shape, beside, mine, its, clocks)


router = pages()

SHOWN = 50
"""Number of candidates on one page of the list."""

Other = Annotated[str | None, Query(pattern=f"^{ID.pattern}$")]
Index = Annotated[int | None, Query(ge=0, le=64)]


SORTS: Mapping[str, str] = {
    "-created": "newest first",
    "created": "oldest first",
    "-objective": "fastest first",
    "objective": "slowest first",
}
"""Orders of the list and their names. Sorted by speedup, it has the candidates with a speedup on the first device."""


@dataclass(frozen=True)
class CandidateListView:
    """Filters and order of the list, kept in the page's address; empty texts do not filter."""

    emitter: str = ""
    outcome: str = ""
    text: str = ""
    sort: str = "-created"

    def address(self, after: str = "", **changed: str) -> str:
        """Return the query string of this view, optionally with changes and the cursor of a page."""
        fields = {**asdict(self), **changed, "after": after}
        fields = {name: value for name, value in fields.items() if value and (name, value) != ("sort", "-created")}
        return "?" + urlencode(fields)


@dataclass(frozen=True)
class CandidateList(HtmlPage):
    """A search's candidates, filtered and sorted. `following` is the address of the next page; empty at the end."""

    template = "candidates.html"
    section = "/"

    search: SearchRecord
    candidates: tuple[CandidateRow, ...]
    view: CandidateListView
    emitters: tuple[str, ...]
    outcomes: tuple[str, ...]
    sorts: Mapping[str, str]
    following: str
    first: bool

    @property
    def title(self) -> str:
        """Name of the search."""
        return f"Candidates of {self.search.operator_name} {brief(self.search.id)}"


async def _view_of(
    emitter: Annotated[str, Query(max_length=64)] = "",
    outcome: Annotated[str, Query(max_length=64)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    sort: Annotated[str, Query(max_length=32)] = "-created",
) -> CandidateListView:
    """Read the view from an address.

    Raises:
        InvalidInput: If it names an outcome or an order that does not exist.
    """
    if outcome and outcome not in set(Outcome):
        raise InvalidInput(f"'{outcome}' is not one of: {', '.join(Outcome)}", "outcome")
    if sort not in SORTS:
        raise InvalidInput(f"'{sort}' is not one of: {', '.join(SORTS)}", "sort")
    return CandidateListView(emitter, outcome, text.strip(), sort)


@router.get("/searches/{id}/candidates", dependencies=[needs(Scope.READ)])
async def find(
    search: Named,
    running: Running,
    frame: Framed,
    view: Annotated[CandidateListView, Depends(_view_of)],
    after: Cursor = None,
) -> Response:
    """List the candidates of a search by emitter, outcome and text."""
    where = CandidateFilter(emitter=view.emitter or None, outcome=view.outcome or None, text=view.text or None)
    key = decode_sorted(after or None, view.sort, CANDIDATE_SORTS[view.sort.removeprefix("-")])
    found = await running.store.listings.candidates(search.id, where, sort=view.sort, after=key, limit=SHOWN)
    page = CandidateList(
        search=search,
        candidates=found.items,
        view=view,
        emitters=tuple(dict.fromkeys((SEED_EMITTER, *search.emitters))),
        outcomes=tuple(each.value for each in Outcome),
        sorts=SORTS,
        following="" if found.after is None else view.address(encode((view.sort, *found.after))),
        first=key is None,
    )
    return respond(page, frame)


@router.get("/candidates/compare", dependencies=[needs(Scope.READ)])
async def compare(
    running: Running,
    frame: Framed,
    left: Annotated[str, Query(max_length=64)] = "",
    right: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show two candidates side by side, each named by its id."""
    return respond(await load_pair(running.store, left.strip(), right.strip()), frame)


@router.get("/candidates/{id}", dependencies=[needs(Scope.READ)])
async def show(id: Id, running: Running, frame: Framed, variant: Index = None, against: Other = None) -> Response:
    """Show one candidate."""
    return respond(await load_candidate(running.store, id, variant, against), frame)


@router.get("/candidates/{id}/assembly", dependencies=[needs(Scope.READ)])
async def assembly(id: Id, running: Running, frame: Framed, variant: Index = None) -> Response:
    """Return the compiled kernels of a variant: a fragment of its own, because it may be megabytes long."""
    part = await load_assembly(running.store, id, variant or 0)
    return Response(render_fragment(part, frame), media_type="text/html", headers=dict(HEADERS))


@router.get("/candidates/{id}/source", dependencies=[needs(Scope.READ)])
async def source(id: Id, running: Running) -> Response:
    """Download the source exactly as it was proposed."""
    candidate = await running.store.candidates.get(id)
    name = f"candidate_{brief(id)}.py"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(candidate.source, media_type="text/x-python", headers=headers)


@router.get("/candidates/{id}/certificate", dependencies=[needs(Scope.READ)])
async def certificate(
    id: Id,
    running: Running,
    frame: Framed,
    device: Annotated[str | None, Query(max_length=64)] = None,
    variant: Index = None,
) -> Response:
    """Show the certificate of a verdict."""
    found = await Certifier(running.store).of_candidate(id, device=device, variant=variant)
    return respond(CertificatePage.of(found), frame)


@router.get("/candidates/{id}/certificate.json", dependencies=[needs(Scope.READ)])
async def certificate_file(
    id: Id, running: Running, device: Annotated[str | None, Query(max_length=64)] = None, variant: Index = None
) -> Response:
    """Download the certificate as a file for `reef verify`."""
    found = await Certifier(running.store).of_candidate(id, device=device, variant=variant)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="certificate_{brief(id)}.json"'}
    return Response(found.text(), media_type="application/json", headers=headers)


@router.get("/candidates/{id}/kernel", dependencies=[needs(Scope.READ)])
async def kernel(
    id: Id, running: Running, device: Annotated[str, Query(max_length=64)], variant: Index = None
) -> Response:
    """Download an elite as a runnable file: the kernel, its origin and a self-check."""
    text = await load_kernel(running.store, id, device, variant or 0)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="kernel_{brief(id)}.py"'}
    return Response(text, media_type="text/x-python", headers=headers)
