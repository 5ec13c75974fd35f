"""Contexts for emitters that use language models: facts from the archive for a prompt, each with its report."""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from archive.descriptors import DESCRIPTORS, coordinates
from archive.grid import Grid
from archive.records import (
    Attempt,
    CandidateRecord,
    EliteRecord,
    Exchange,
    ExchangeState,
    ExchangeSummary,
    SearchRecord,
)
from archive.selection import PINNED_SHARE, preferred
from archive.store import Store
from service.emitters.base import (
    BoundLlmClient,
    EmitterTools,
    LlmContext,
    Parent,
    ProposalContext,
    ShapeTiming,
    TriedChange,
)
from service.emitters.llm.strategies import REPAIR, STRATEGIES
from service.evaluation.feasibility import is_impossible
from service.evaluation.figure_labels import LAUNCH_US, bottleneck, occupancy_limiter
from service.evaluation.floors import HALVES, floors, works
from service.evaluation.jobs import target_of, trace_id
from service.evaluation.promotion import first_benchmark
from service.evaluation.reports import latest_reports, reports_on
from service.evaluation.speedups import benchmark_weights
from service.generation.proposals import chance
from service.llm.base import LlmAnswer, LlmClient, LlmPrompt, Purpose, SamePromptOpen, digest
from service.llm_gateway.strategy_stats import records, standings
from workers.protocol import Operator, Outcome, Readings, Report, Shape
from workers.targets import shown_figures

EMITTER = "llm"
"""Emitter whose candidates count as attempts of language models."""
FAILURES, NEIGHBOURS, CHANGES, UNDER_WAY = 6, 4, 12, 8
"""Maximum numbers of failures, neighbours, changes of models and open proposals in a prompt."""
LOOKED_AT = 40
"""Maximum number of newest failures that are read to find different ones."""
REPAIRS = 2
"""Maximum number of repairs of one failure, repairs of repairs included."""
PENDING = (ExchangeState.ASKED, ExchangeState.WAITING, ExchangeState.CLAIMED)
"""States of an exchange without an answer."""
BEYOND_REPAIR = (Outcome.WORKER_LOST, Outcome.NOT_RECORDED, Outcome.NOT_INTERPRETABLE)
"""Outcomes that say nothing about the text."""


class DistinctPrompts:
    """Client that asks no prompt that another proposal of the same search has open."""

    def __init__(self, ask: LlmClient, open_prompts: dict[str, int]) -> None:
        """Prepare; `open_prompts` maps the digests of a search's open prompts to their ordinals."""
        self._ask = ask
        self._open = open_prompts

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Get an answer to a prompt.

        Raises:
            SamePromptOpen: If another proposal waits for an answer to it.
        """
        key = digest(prompt)
        if self._open.setdefault(key, purpose.ordinal) != purpose.ordinal:
            raise SamePromptOpen("another proposal of this search has the same prompt open")
        try:
            return await self._ask(prompt, purpose, backend)
        finally:
            self._open.pop(key, None)


class ResumedLlmClient:
    """Client that repeats the recorded prompts of a resumed conversation: paid answers count, though data changed."""

    def __init__(self, ask: BoundLlmClient, begun: Sequence[Exchange]) -> None:
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

    def __init__(self, store: Store, compilers: Callable[[SearchRecord], tuple[str, ...]] = lambda search: ()) -> None:
        """Prepare; `compilers` returns the Triton releases that may compile a search's candidates."""
        self._store = store
        self._compilers = compilers

    async def write(
        self,
        search: SearchRecord,
        operator: Operator,
        ordinal: int,
        begun: Sequence[Exchange],
        ask: LlmClient,
        tools: EmitterTools,
        open_prompts: dict[str, int] | None = None,
    ) -> ProposalContext:
        """Build the context of one proposal; one that was started earlier keeps its parents and cell.

        Args:
            search: The search.
            operator: Its operator.
            ordinal: Number of the proposal.
            begun: Exchanges of an earlier start.
            ask: Client for prompts.
            tools: Tools for conversations.
            open_prompts: Ordinals of the search's open prompts, by digest; kept by the client.
        """
        rng = chance(search, ordinal)
        device = rng.choice(search.devices)
        rng.choice(search.emitters)
        terms = search.llm or {}
        llm = LlmContext(
            search=search.id,
            ordinal=ordinal,
            device=device,
            ask=ResumedLlmClient(DistinctPrompts(ask, {} if open_prompts is None else open_prompts), begun),
            tools=tools,
            backends=ask.available(tuple(terms.get("backends") or ())),
            strategies=tuple(terms.get("strategies") or STRATEGIES),
            agents=ask.available(tuple(terms.get("agents") or ())),
        )
        parents: Sequence[Parent] = ()
        if begun:
            parents = await self._again(search, device, begun[0])
            cell = begun[0].cell
            place = "" if cell is None else in_words(search, cell)
            llm = replace(llm, begun=(begun[0].backend, begun[0].strategy), cell=cell, place=place)
        else:
            parents, llm = await self._fresh(search, operator, llm, rng)
        parents = parents or [Parent(candidate="", source=operator.seeds[search.reference_seed])]
        spec, compilers = operator.model_dump(mode="json"), self._compilers(search)
        return ProposalContext(spec, target_of(search), tuple(parents), (), rng, llm, compilers=compilers)

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
        elites = sorted(
            await self._store.elites.list(search.id, llm.device, search.axes_version),
            key=lambda elite: (-elite.objective, elite.cell),
        )
        pinned = preferred(elites, await self._store.pins.list(search.id, llm.device))
        chosen = by_rank(elites, rng, pinned)
        parents = [await self.holder(search, elite) for elite in chosen]
        cell = _target(search, elites, rng)
        near = Grid(search.axes).neighbours(chosen[0].cell if cell is None else cell) if elites else []
        beside = [elite for elite in elites if elite.cell in near][:NEIGHBOURS]
        attempts = await self._store.attempts.of(search.id, EMITTER)
        asked = await self._store.attempts.asked(search.id)
        failed = [item for item in reversed(attempts) if item.outcome not in (None, Outcome.CORRECT)]
        broken = next((item for item in failed if _is_repairable(item, asked)), None)
        offers = await self._store.attempts.offers(search.id, EMITTER)
        arms = await self._store.exchanges.llm_stats(search.id)
        return parents, replace(
            llm,
            records=records(standings(arms, asked, attempts, offers)),
            cell=cell,
            place="" if cell is None else in_words(search, cell),
            neighbours=tuple([await self.holder(search, elite) for elite in beside]),
            broken=None if broken is None else await self._attempt(search, llm.device, broken),
            failures=await self._failures(search, llm.device, failed),
            hints=tuple(hint.text for hint in await self._store.hints.list(search.id)),
            best=await self.holder(search, elites[0]) if elites else None,
            changes=tried_changes(asked, attempts),
            under_way=under_way(search, llm.ordinal, asked),
        )

    async def _failures(self, search: SearchRecord, device: str, failed: Sequence[Attempt]) -> tuple[Parent, ...]:
        """Describe the newest failures, one per cause; the note of each says how often it happened."""
        found: dict[str, Parent] = {}
        times: Counter[str] = Counter()
        for item in failed[:LOOKED_AT]:
            described = await self._attempt(search, device, item)
            cause = cause_of(described)
            times[cause] += 1
            if len(found) < FAILURES:
                found.setdefault(cause, described)
        return tuple(replace(kernel, times_failed=times[cause]) for cause, kernel in found.items())

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
            limiter=_limiter(search, report, first),
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
    """Choose an empty cell beside a filled one, among those that a kernel can lie in."""
    grid, filled = Grid(search.axes), {elite.cell for elite in elites}
    names, target = [axis.descriptor for axis in search.axes], shown_figures(target_of(search), None)
    empty = sorted({near for cell in filled for near in grid.neighbours(cell)} - filled)
    possible = [cell for cell in empty if not is_impossible(dict(zip(names, grid.bins(cell), strict=True)), target)]
    return rng.choice(possible) if possible else None


def by_rank(
    elites: Sequence[EliteRecord], rng: random.Random, pinned: Sequence[EliteRecord] = ()
) -> tuple[EliteRecord, ...]:
    """Choose up to two different elites, the better ones more often: the weight of rank n is 1/n.

    Args:
        elites: Elites, the best first.
        rng: The only source of randomness.
        pinned: Elites that people prefer: half of the first choices are among them.
    """
    chosen: list[EliteRecord] = []
    for _ in range(2):
        first = not chosen and pinned and rng.random() < PINNED_SHARE
        left = [elite for elite in (pinned if first else elites) if elite not in chosen]
        if left:
            chosen += rng.choices(left, [1 / rank for rank in range(1, len(left) + 1)])
    return tuple(chosen)


def cause_of(failed: Parent) -> str:
    """Return the cause of a failure: its outcome, and its reason without what differs from kernel to kernel."""
    reason = re.sub(r"0x[0-9a-f]+|'[^']{0,80}'|\"[^\"]{0,80}\"|\d[\d.,e+-]*", "#", failed.reason.lower())
    return f"{failed.outcome}: {' '.join(reason.split())[:200]}"


def tried_changes(asked: Sequence[ExchangeSummary], attempts: Sequence[Attempt]) -> tuple[TriedChange, ...]:
    """Return the changes that models described, with the results of their candidates, newest first."""
    known = {attempt.id: attempt for attempt in attempts}
    found = []
    for item in reversed(asked):
        attempt = known.get(item.candidate or "")
        if item.change and attempt is not None:
            before = [known[id].objective for id in attempt.parents if id in known]
            best = max((each for each in before if each is not None), default=None)
            outcome, job = attempt.outcome or "", trace_id(attempt.id)
            found.append(TriedChange(item.change, outcome, attempt.objective, best, attempt.id, job))
    return tuple(found[:CHANGES])


def under_way(search: SearchRecord, ordinal: int, asked: Sequence[ExchangeSummary]) -> tuple[str, ...]:
    """Describe the other proposals that wait for an answer, each once."""
    open_ = [item for item in asked if item.state in PENDING and item.ordinal != ordinal]
    said = [item.strategy if item.cell is None else f"{item.strategy}: {in_words(search, item.cell)}" for item in open_]
    return tuple(dict.fromkeys(said))[:UNDER_WAY]


def _limiter(search: SearchRecord, report: Report | None, read: Mapping[str, Any]) -> str:
    if not read:
        return ""
    target = shown_figures(target_of(search), report.card if report else None)
    return occupancy_limiter(Readings.model_validate(read), target)


def _times(
    search: SearchRecord, report: Report | None, readings: Sequence[Mapping[str, Any]]
) -> tuple[ShapeTiming, ...]:
    target = shown_figures(target_of(search), report.card if report else None)
    weights = benchmark_weights(search)
    results = {item.shape: item for item in report.shapes} if report else {}
    todo = works(search.shapes, search.graphs, HALVES)  # The rate of the short types: a bound for all others, too.
    found = []
    for shape, read, work in zip(search.shapes, readings, todo, strict=False):
        key = Shape.model_validate(shape).key
        result = results.get(key)
        if key not in weights or result is None or not (result.mid_us and result.low_us and result.high_us):
            continue
        required, moved = read.get("bytes_required"), read.get("bytes_moved")
        least = floors(replace(work, required_bytes=required), target)
        found.append(
            ShapeTiming(
                shape=key,
                weight=weights[key],
                mid_us=result.mid_us,
                low_us=result.low_us,
                high_us=result.high_us,
                floor_us=least.memory_us,
                arithmetic_us=least.arithmetic_us,
                moved_us=moved / target.dram_bytes_per_s * 1e6 if moved else None,
                launch_us=read.get("launches", 0) * LAUNCH_US or None,
                bound=bottleneck(Readings.model_validate(read), target, result.mid_us),
            )
        )
    return tuple(found)


def _is_repairable(failed: Attempt, asked: Sequence[ExchangeSummary]) -> bool:
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
