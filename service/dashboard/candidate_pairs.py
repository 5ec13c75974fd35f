"""Two candidates side by side: their facts in two columns, and their sources compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.errors import RecordNotFound
from archive.records import CandidateRecord, SearchRecord
from archive.store import Store
from kernelreef.short_ids import brief
from service.api.paging import ID
from service.dashboard import formatting
from service.dashboard.candidate import CandidatePage, load_candidate
from service.dashboard.rendering import HtmlPage
from service.dashboard.sources import PairedLine, side_by_side
from service.evaluation.figure_labels import provenance


@dataclass(frozen=True)
class FactRow:
    """A fact about both candidates, in words. `differs` is True if they are unequal."""

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        """True if the candidates differ in it."""
        return self.left != self.right


@dataclass(frozen=True)
class CandidatePair(HtmlPage):
    """Both candidates. `lines` are their sources line by line; None if one is too long to compare."""

    template = "candidate_pair.html"
    section = "/"

    left: CandidateRecord
    right: CandidateRecord
    searches: tuple[SearchRecord, SearchRecord]
    facts: tuple[FactRow, ...]
    lines: tuple[PairedLine, ...] | None

    @property
    def title(self) -> str:
        """Short names of both candidates."""
        return f"Candidates {brief(self.left.id)} and {brief(self.right.id)}"

    @property
    def doubt(self) -> str:
        """Reason why their figures are not comparable; empty if they are."""
        left, right = self.searches
        if left.operator != right.operator:
            return "Their operators differ, so their speedups are relative to different baselines."
        return ""


async def load_pair(store: Store, left: str, right: str) -> CandidatePair:
    """Read both candidates, each with its first correct variant.

    Raises:
        RecordNotFound: If one of them does not exist.
    """
    for id in (left, right):
        if not ID.fullmatch(id):
            raise RecordNotFound(f"there is no candidate '{id}'")
    pages = [await load_candidate(store, id, None, None) for id in (left, right)]
    return CandidatePair(
        left=pages[0].candidate,
        right=pages[1].candidate,
        searches=(pages[0].search, pages[1].search),
        facts=_rows([_facts(page) for page in pages]),
        lines=side_by_side(pages[0].candidate.source, pages[1].candidate.source),
    )


def _rows(sides: Sequence[dict[str, str]]) -> tuple[FactRow, ...]:
    left, right = sides
    names = dict.fromkeys((*left, *right))
    return tuple(
        FactRow(name, left.get(name, formatting.UNKNOWN), right.get(name, formatting.UNKNOWN)) for name in names
    )


def _facts(page: CandidatePage) -> dict[str, str]:
    """Describe a candidate: its verdict, its speedups and times, its place in the grid, and its first plan."""
    candidate = page.candidate
    facts = {
        "search": f"{page.search.operator_name} {brief(page.search.id)}",
        "emitter": candidate.emitter,
        "change": candidate.note or formatting.UNKNOWN,
        "outcome": formatting.title(candidate.outcome or "in flight"),
    }
    if page.chosen and page.chosen.configuration:
        facts["configuration"] = formatting.settings(page.chosen.configuration)
    for device, objective in candidate.objectives.items():
        facts[f"speedup on {device}, lower bound"] = formatting.speedup(objective, provenance(device))
    for judged in page.judged:
        for shape in judged.times:
            facts[f"time at {shape.shape} on {judged.device}"] = shape.bars[0].value
    for place in page.places:
        facts[formatting.title(place.axis)] = place.bin if place.value is None else formatting.decimal(place.value)
    if page.plans:
        known = {name.removesuffix(" bytes") for name in facts}
        plan = page.plans[0]
        facts |= {f"{name} at {plan.shape}": value for name, value in plan.readings if name not in known}
    return facts
