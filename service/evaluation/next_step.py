"""The next step of a variant on its way to a cell: a pure function of what is known about it and about the cell.

    measured ── SecondTrace, Repeat ──> Hold ──> (it leads) Confirm, SecondTrace ──> Promote
                                     └── the confirm or the second trace says otherwise ──> GiveBack

On devices that measure, the first measurement makes a variant the provisional holder of its cell at most; a confirm and
an equal second trace make it the elite. Whatever exceeds the elite is offered: if the holder gives the cell back, the
best offer that it kept out holds it. On `model` and `recorded` devices figures do not change between runs, so a
strictly greater objective and an equal second trace are enough. An untrusted worker's trace or report alone decides
nothing: a trusted worker repeats it first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.records import EMPTY_CELL
from workers.protocol import PRACTICAL_MARGIN, Ratio

SLOWER = "its confirm was not faster than the elite of the cell"
"""Reason why a provisional holder loses its cell."""


@dataclass(frozen=True)
class CellHolder:
    """The elite or the provisional holder of a cell: its bundle, its objective and the middle of its speedup."""

    bundle: str
    objective: float
    mid: float


@dataclass(frozen=True)
class CellState:
    """Holders of a cell."""

    elite: CellHolder | None = None
    provisional: CellHolder | None = None

    @property
    def incumbent(self) -> str:
        """Bundle that a challenger has to be confirmed against."""
        return EMPTY_CELL if self.elite is None else self.elite.bundle

    def yields_to(self, low: float, *, elite_only: bool = False) -> bool:
        """Return True if a lower bound exceeds the middle of every holder, or of the elite, by the practical margin."""
        holders = (self.elite, None if elite_only else self.provisional)
        return all(low > holder.mid * (1 + PRACTICAL_MARGIN) for holder in holders if holder is not None)


@dataclass(frozen=True)
class ReportFacts:
    """Facts of one report on a variant.

    Attributes:
        job: Id of its job.
        correct: True if the variant is correct, by a worker whose trust is above D.
        trusted: True if a trusted worker made it.
        speedup: Speedup in the unit of the search's objectives; None if unknown.
        incumbent: Bundle that a confirm was made against, or `EMPTY_CELL`; None for a measurement.
        rival: Speedup of a confirm over its incumbent; None without one.
        reason: Reason of an outcome that is not correct.
    """

    job: str
    correct: bool
    trusted: bool
    speedup: Ratio | None
    incumbent: str | None = None
    rival: Ratio | None = None
    reason: str = ""

    @property
    def counts(self) -> bool:
        """True if it may lead to an offer."""
        return self.correct and self.speedup is not None

    @property
    def outdoes(self) -> bool:
        """True if a confirm gives its challenger the cell.

        In an empty cell the challenger only has to be correct again. An incumbent has to be beaten by more than the
        practical margin.
        """
        if not (self.counts and self.trusted) or self.incumbent is None:
            return False
        beaten = self.rival is not None and self.rival.low > 1 + PRACTICAL_MARGIN
        return beaten or self.incumbent == EMPTY_CELL


@dataclass(frozen=True)
class CaseFacts:
    """Facts about a variant on one device.

    Attributes:
        bundle: Identity of its bundle.
        measures: True if the device measures.
        trusted_trace: True if a trusted worker made its trace.
        retraced: True if a second trace was equal, False if it was not, None if there was none.
        reports: Its reports, oldest first.
        leads: True if a confirm is worth its time now.
    """

    bundle: str
    measures: bool
    trusted_trace: bool
    retraced: bool | None
    reports: Sequence[ReportFacts]
    leads: bool = False

    @property
    def measurement(self) -> ReportFacts | None:
        """The measurement that counts: a trusted worker's repetition if there is one."""
        found = [report for report in self.reports if report.incumbent is None]
        trusted = [report for report in found if report.trusted]
        return next(iter(trusted or found), None)

    @property
    def confirm(self) -> ReportFacts | None:
        """The last confirm by a trusted worker."""
        found = [report for report in self.reports if report.incumbent is not None and report.trusted]
        return found[-1] if found else None


@dataclass(frozen=True)
class Rest:
    """Nothing to do: it holds its cell, cannot win it, or waits until it leads."""


@dataclass(frozen=True)
class SecondTrace:
    """A trusted worker traces it a second time."""


@dataclass(frozen=True)
class Repeat:
    """A trusted worker repeats the untrusted worker's measurement."""


@dataclass(frozen=True)
class Hold:
    """It is offered the cell provisionally, by this measurement."""

    report: ReportFacts


@dataclass(frozen=True)
class Confirm:
    """It is confirmed against the cell's elite, and traced a second time meanwhile."""

    incumbent: str


@dataclass(frozen=True)
class Promote:
    """It is offered the cell, by this report; with an incumbent if that report is a confirm."""

    report: ReportFacts


@dataclass(frozen=True)
class GiveBack:
    """It loses the cell that it holds provisionally, by this report or by its second trace (None)."""

    report: ReportFacts | None
    reason: str


Step = Rest | SecondTrace | Repeat | Hold | Confirm | Promote | GiveBack


def next_step(case: CaseFacts, cell: CellState) -> Step:
    """Return the next step of a variant on its way to a cell.

    Args:
        case: What is known about the variant.
        cell: Who holds the cell now.
    """
    measurement = case.measurement
    if measurement is None or not measurement.counts:
        return Rest()
    return _on_a_card(case, cell, measurement) if case.measures else _computed(case, cell, measurement)


def _computed(case: CaseFacts, cell: CellState, measurement: ReportFacts) -> Step:
    """Return the next step where times are predicted or recorded."""
    low = measurement.speedup.low if measurement.speedup is not None else 0.0
    if cell.elite is not None and low <= cell.elite.objective:
        # The history tells of an offer that loses, too, unless an untrusted worker made it.
        return Promote(measurement) if measurement.trusted and case.trusted_trace else Rest()
    if not case.retraced:
        return SecondTrace() if case.retraced is None else Rest()
    return Promote(measurement) if measurement.trusted else Repeat()


def _on_a_card(case: CaseFacts, cell: CellState, measurement: ReportFacts) -> Step:
    """Return the next step where times are measured."""
    if cell.elite is not None and cell.elite.bundle == case.bundle:
        return Rest()
    holds = cell.provisional is not None and cell.provisional.bundle == case.bundle
    if case.retraced is False:
        return GiveBack(None, "") if holds else Rest()
    if case.confirm is not None:
        return _confirmed(case, cell, case.confirm, holds=holds)
    if holds:
        return Confirm(cell.incumbent) if case.leads else Rest()
    low = 0.0 if measurement.speedup is None else measurement.speedup.low
    if not cell.yields_to(low, elite_only=True):
        return Rest()
    traced = case.trusted_trace or bool(case.retraced)
    if measurement.trusted and traced:
        # Also if the provisional holder is as good: the history keeps it, in case that holder gives the cell back.
        return Hold(measurement)
    if not cell.yields_to(low):
        return Rest()
    return Repeat() if traced else SecondTrace()


def _confirmed(case: CaseFacts, cell: CellState, confirm: ReportFacts, *, holds: bool) -> Step:
    """Return the next step after a confirm."""
    met = {report.incumbent for report in case.reports}
    if confirm.counts and confirm.incumbent != cell.incumbent and cell.incumbent not in met:
        # The elite has changed meanwhile.
        return Confirm(cell.incumbent) if holds and case.leads else Rest()
    if not confirm.outdoes or confirm.incumbent != cell.incumbent:
        return GiveBack(confirm, confirm.reason or SLOWER) if holds else Rest()
    return Promote(confirm) if case.retraced else SecondTrace()
