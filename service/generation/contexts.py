"""Contexts for emitters that use language models: facts from the archive for a prompt, each with its report."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from archive.descriptors import DESCRIPTORS, coordinates
from archive.grid import Grid
from archive.policies import CellContext
from archive.records import Attempt, CandidateRecord, EliteRecord, Exchange, ExchangeSummary, SearchRecord
from archive.selection import preferred, select
from archive.store import Store
from service.emitters.base import EmitterTools, LlmContext, Parent, ProposalContext, ShapeTiming
from service.emitters.llm.strategies import REPAIR, STRATEGIES
from service.evaluation.figure_labels import bottleneck
from service.evaluation.jobs import target_of, trace_id
from service.evaluation.promotion import first_benchmark
from service.evaluation.reports import latest_reports, reports_on
from service.evaluation.speedups import benchmark_weights
from service.generation.proposals import chance
from service.llm.base import LlmAnswer, LlmClient, LlmPrompt, Purpose
from service.llm_gateway.strategy_stats import records, standings
from workers.protocol import Operator, Outcome, Readings, Report, Shape
from workers.targets import shown_figures

EMITTER = "llm"
"""Emitter whose candidates count as attempts of language models."""
FAILURES, NEIGHBOURS = 6, 4
"""Maximum numbers of failures and neighbours in a prompt."""
REPAIRS = 2
"""Maximum number of repairs of one failure, repairs of repairs included."""
BEYOND_REPAIR = (Outcome.WORKER_LOST, Outcome.NOT_RECORDED, Outcome.NOT_INTERPRETABLE)
"""Outcomes that say nothing about the text."""


class ResumedLlmClient:
    """Client that repeats the recorded prompts of a resumed conversation: paid answers count, though data changed."""

    def __init__(self, ask: LlmClient, begun: Sequence[Exchange]) -> None:
        self._ask = ask
        self._begun = {exchange.step: exchange for exchange in begun}

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Get an answer to a prompt; a recorded prompt of the same step is used instead, if there is one."""
        earlier = self._begun.get(purpose.step)
        if earlier is None:
            return await self._ask(prompt, purpose, backend)
        names = (item.name for item in fields(Purpose))
        return await self._ask(
            LlmPrompt(earlier.system, earlier.user, earlier.max_tokens),
            Purpose(**{name: getattr(earlier, name) for name in names}),
            earlier.backend,
        )


class ContextBuilder:
    """Builds contexts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(
        self,
        search: SearchRecord,
        operator: Operator,
        ordinal: int,
        begun: Sequence[Exchange],
        ask: LlmClient,
        tools: EmitterTools,
    ) -> ProposalContext:
        """Build the context of one proposal; one that was started earlier keeps its parents and cell."""
        rng = chance(search, ordinal)
        device = rng.choice(search.devices)
        rng.choice(search.emitters)
        terms = search.llm or {}
        llm = LlmContext(
            search=search.id,
            ordinal=ordinal,
            device=device,
            ask=ResumedLlmClient(ask, begun),
            tools=tools,
            backends=ask.available(tuple(terms.get("backends") or ())),
            strategies=tuple(terms.get("strategies") or STRATEGIES),
        )
        parents: Sequence[Parent] = ()
        if begun:
            parents = await self._again(search, device, begun[0])
            cell = begun[0].cell
            place = "" if cell is None else in_words(search, cell)
            llm = replace(llm, begun=(begun[0].backend, begun[0].strategy), cell=cell, place=place)
        else:
            parents, llm = await self._fresh(search, operator, llm, rng)
        parents = parents or [Parent(candidate="", source=operator.seeds[0])]
        return ProposalContext(operator.model_dump(mode="json"), target_of(search), tuple(parents), (), rng, llm)

    async def holder(self, search: SearchRecord, elite: EliteRecord) -> Parent:
        """Describe the holder of a cell."""
        candidate = await self._store.candidates.get(elite.candidate)
        reports = await reports_on(self._store, elite.candidate, search)
        report = next((item for item in reports if item.job == elite.job), None)
        return await self._described(search, candidate, report, elite)

    async def candidate(self, search: SearchRecord, device: str, candidate: CandidateRecord) -> Parent:
        """Describe any candidate, by its best variant on a device."""
        reports = latest_reports(await reports_on(self._store, candidate.id, search))
        here = sorted(
            (item for item in reports if item.device.name == device),
            key=lambda item: (item.outcome is not Outcome.CORRECT, item.variant),
        )
        return await self._described(search, candidate, here[0] if here else None, None)

    async def _again(self, search: SearchRecord, device: str, begun: Exchange) -> list[Parent]:
        known = await self._store.lineage.candidates(begun.parents)
        return [await self.candidate(search, device, known[id]) for id in begun.parents if id in known]

    async def _fresh(
        self, search: SearchRecord, operator: Operator, llm: LlmContext, rng: random.Random
    ) -> tuple[list[Parent], LlmContext]:
        elites = await self._store.elites.list(search.id, llm.device, search.axes_version)
        visits = await self._store.elites.visits(search.id, llm.device, search.axes_version)
        pinned = preferred(elites, await self._store.pins.list(search.id, llm.device))
        around = CellContext(visits)
        first = select(elites, rng, around, pinned)
        others = [elite for elite in elites if first is None or elite != first.parent]
        second = select(others, rng, around)
        parents = [await self.holder(search, choice.parent) for choice in (first, second) if choice is not None]
        cell = _target(search, elites, rng)
        near = (
            Grid(search.axes).neighbours(first.parent.cell if cell is None and first else cell or 0) if elites else []
        )
        beside = [elite for elite in elites if elite.cell in near][:NEIGHBOURS]
        attempts = await self._store.attempts.of(search.id, EMITTER)
        asked = await self._store.attempts.asked(search.id)
        failed = [item for item in reversed(attempts) if item.outcome not in (None, Outcome.CORRECT)]
        broken = next((item for item in failed if _is_repairable(item, attempts, asked)), None)
        offers = await self._store.attempts.offers(search.id, EMITTER)
        arms = await self._store.exchanges.llm_stats(search.id)
        return parents, replace(
            llm,
            records=records(standings(arms, asked, attempts, offers)),
            cell=cell,
            place="" if cell is None else in_words(search, cell),
            neighbours=tuple([await self.holder(search, elite) for elite in beside]),
            broken=None if broken is None else await self._attempt(search, llm.device, broken),
            failures=tuple([await self._attempt(search, llm.device, item) for item in failed[:FAILURES]]),
            hints=tuple(hint.text for hint in await self._store.hints.list(search.id)),
        )

    async def _attempt(self, search: SearchRecord, device: str, attempt: Attempt) -> Parent:
        return await self.candidate(search, device, await self._store.candidates.get(attempt.id))

    async def _described(
        self, search: SearchRecord, candidate: CandidateRecord, report: Report | None, elite: EliteRecord | None
    ) -> Parent:
        readings: Sequence[Mapping[str, Any]] = ()
        configuration: Mapping[str, Any] = {}
        if report is not None:
            readings = (await self._store.bundles.get(report.bundle)).readings
            variants = await self._store.candidates.variants(candidate.id)
            configuration = next((item.configuration for item in variants if item.index == report.variant), {})
        first = readings[first_benchmark(search)] if readings else {}
        cell = elite.cell if elite else _cell(search, first)
        return Parent(
            candidate=candidate.id,
            source=candidate.source,
            configuration=configuration,
            objective=elite.objective if elite else candidate.objectives.get(report.device.name) if report else None,
            cell=cell,
            readings=first,
            place="" if cell is None else in_words(search, cell),
            note=candidate.note,
            outcome=candidate.outcome or "",
            reason=candidate.reason,
            line=candidate.line,
            times=_times(search, report, readings),
            job=report.job if report else "",
            card=report.card if report else None,
            traced=trace_id(candidate.id),
            ordinal=candidate.ordinal,
        )


def in_words(search: SearchRecord, cell: int) -> str:
    """Name a cell by its bins, such as `num_warps: 4; registers: 33-64`."""
    bins = zip(search.axes, Grid(search.axes).bins(cell), strict=True)
    return "; ".join(f"{axis.descriptor}: {DESCRIPTORS[axis.descriptor].labels[bin_]}" for axis, bin_ in bins)


def _cell(search: SearchRecord, readings: Mapping[str, Any]) -> int | None:
    return Grid(search.axes).index(coordinates(readings)) if readings else None


def _target(search: SearchRecord, elites: Sequence[EliteRecord], rng: random.Random) -> int | None:
    """Choose an empty cell beside a filled one."""
    grid, filled = Grid(search.axes), {elite.cell for elite in elites}
    empty = sorted({near for cell in filled for near in grid.neighbours(cell)} - filled)
    return rng.choice(empty) if empty else None


def _times(
    search: SearchRecord, report: Report | None, readings: Sequence[Mapping[str, Any]]
) -> tuple[ShapeTiming, ...]:
    target = shown_figures(target_of(search), report.card if report else None)
    weights = benchmark_weights(search)
    results = {item.shape: item for item in report.shapes} if report else {}
    found = []
    for shape, read in zip(search.shapes, readings, strict=False):
        key = Shape.model_validate(shape).key
        result = results.get(key)
        if key not in weights or result is None or not (result.mid_us and result.low_us and result.high_us):
            continue
        required = read.get("bytes_required")
        found.append(
            ShapeTiming(
                shape=key,
                weight=weights[key],
                mid_us=result.mid_us,
                low_us=result.low_us,
                high_us=result.high_us,
                floor_us=required / target.dram_bytes_per_s * 1e6 if required else None,
                bound=bottleneck(Readings.model_validate(read), target, result.mid_us),
            )
        )
    return tuple(found)


def _is_repairable(failed: Attempt, attempts: Sequence[Attempt], asked: Sequence[ExchangeSummary]) -> bool:
    """Return True if a failure may be repaired once more: neither it nor its origin was repaired too often."""
    if failed.outcome in BEYOND_REPAIR:
        return False
    repairs = [item for item in asked if item.strategy == REPAIR]
    of = {item.candidate: item.parents[0] for item in repairs if item.candidate and item.parents}
    depth, id = 0, failed.id
    while id in of and depth < REPAIRS:
        depth, id = depth + 1, of[id]
    tried = sum(failed.id in item.parents for item in repairs)
    return depth + tried < REPAIRS
