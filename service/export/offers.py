"""Elites of a search as they are offered for export, read over REST."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from kernelreef import models
from kernelreef.packages import Package
from service.certificates.document import Certificate
from service.errors import InvalidInput, NotFound
from service.export.package import ExportSource, export
from service.export.selection import ExportCandidate, mean_time
from workers.protocol import Device, Outcome, Report

LOOKED_AT = 200
"""Elites whose reports are read, the best ones: a winner at one shape is seldom bad at all others."""


class Shelf(Protocol):
    """The part of a client that is needed."""

    async def search(self, id: str) -> models.Search:
        """One search."""

    def elites(self, search: str, device: str | None = None) -> AsyncIterator[models.Elite]:
        """The elites on one device, best first."""

    def candidates(
        self, search: str, *, emitter: str, device: str, sort: str
    ) -> AsyncIterator[models.CandidateSummary]:
        """The candidates of an emitter that are correct on a device."""

    async def candidate(self, id: str) -> models.Candidate:
        """One candidate with its reports."""

    async def certificate(
        self, candidate: str, *, device: str | None = None, variant: int | None = None, source: bool = True
    ) -> models.Document:
        """All that a verdict rests on."""


async def package_of(
    reef: Shelf,
    search: str,
    *,
    device: str | None,
    backward: str | None,
    name: str | None,
    shapes: Sequence[Mapping[str, int]] = (),
    against: str | None = None,
) -> Package:
    """Trace a search's fastest elites anew on this machine, and make a package of them.

    Args:
        reef: A client.
        search: Whose elites.
        device: Of which device; the search's first if None.
        backward: A search of the same operator with gradients, whose elites serve where gradients are wanted.
        name: Name to import the package by; `<operator>_kernels` if None.
        shapes: Sizes of shapes to time kernels at, besides those that are drawn.
        against: A search of the same operator at other shapes, where the package is timed beside its best elite.
    """
    wanted = device or (await reef.search(search)).devices[0]
    gradients = None if backward is None else await offer_of(reef, backward, wanted)
    rival = None if against is None else await offer_of(reef, against, wanted)
    return await export(await offer_of(reef, search, wanted), gradients, name=name, shapes=shapes, against=rival)


async def offer_of(reef: Shelf, search: str, device: str) -> ExportSource:
    """The elites of a search on one device, and its seeds: one that lost its cell may win at other shapes.

    Raises:
        NotFound: If it has none.
        InvalidInput: If the device has no plans.
    """
    if Device.parse(device).kind == "recorded":
        raise InvalidInput("a recording holds no launch plans, so nothing of it can be exported", "--device")
    contenders = []
    async for elite in reef.elites(search, device):
        told = await reef.candidate(elite.candidate)
        contenders += [
            ExportCandidate(told.id, elite.variant, elite.objective, report, told.source)
            for report in map(Report.model_validate, told.reports)
            if report.job == elite.job  # The archive may have lost it.
        ]
        if len(contenders) >= LOOKED_AT:
            break
    if not contenders:
        raise NotFound(f"search {search} has no elite on {device} yet")
    kept = {each.candidate for each in contenders}
    async for seed in reef.candidates(search, emitter="seed", device=device, sort="-objective"):
        if seed.id not in kept:
            contenders += _seed(await reef.candidate(seed.id), device)
    known: dict[tuple[str, int], Certificate] = {}

    async def certificate(contender: ExportCandidate) -> Certificate:
        key = (contender.candidate, contender.variant)
        if key not in known:
            document = await reef.certificate(contender.candidate, device=device, variant=contender.variant)
            known[key] = Certificate.model_validate(document)
        return known[key]

    return ExportSource(contenders, certificate)


def _seed(seed: models.Candidate, device: str) -> list[ExportCandidate]:
    """The best variant of a seed on a device."""
    reports = [Report.model_validate(report) for report in seed.reports]
    correct = [each for each in reports if each.device.name == device and each.outcome is Outcome.CORRECT]
    best = min(correct, key=mean_time, default=None)
    objective = seed.objectives.get(device)
    return (
        []
        if best is None or objective is None
        else [ExportCandidate(seed.id, best.variant, objective, best, seed.source)]
    )
