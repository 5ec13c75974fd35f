"""Export of a search's elites to the files of a package, with every function verified and judged."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from kernelreef.packages import Package
from service.certificates.document import Certificate
from service.errors import InvalidInput, ServiceError
from service.evaluation.executor_client import COMMAND
from service.export.decision_tree import PYTORCH, TimedShape, Tree, features, grow
from service.export.executors import ExportExecutors
from service.export.extraction import NotExtractable
from service.export.package_files import ComparedShape, Gradients, PackageParts, render, serving_at
from service.export.sampling import POOL, SampledShapes, is_small_enough, pool, sample
from service.export.selection import ExportCandidate, additions, unlike
from service.export.selection import choose as choose_elites
from service.export.time_model import Sizes, TimeModel, left_out_loss
from service.export.variants import MAX_COMPILED
from service.export.verification import ExportVerifier, VerifiedModule, reduced
from service.operators.sources import digest
from workers.protocol import Operator, Shape

MAX_REFUSED = 16
"""Number of refused elites after which an export fails; each costs a trace."""
MAX_MODULES = 4
"""Maximum number of elites of a package: each has up to 64 kernels, which are judged."""
MAX_TRIED = 3
"""Maximum number of further elites that are tried at the timed shapes alone: each takes as long as a few functions."""
ROUNDS, FURTHER = 2, 12
"""Maximum number of rounds of measurements at further shapes, and of shapes per round. None is made while kernels are
clearly faster than PyTorch, or slower, everywhere."""

_Key = tuple[str, int]
"""Candidate and variant of an elite."""


@dataclass(frozen=True)
class ExportSource:
    """Elites of one search on one device, and a function that returns an elite's certificate with its source."""

    contenders: Sequence[ExportCandidate]
    certificate: Callable[[ExportCandidate], Awaitable[Certificate]]


@dataclass(frozen=True)
class _Portfolio:
    """Verified elites of a search, and which of them serves which shape."""

    modules: Mapping[str, VerifiedModule]
    tree: Tree
    timed: tuple[TimedShape, ...]
    left_out_loss: float | None


async def export(
    forward: ExportSource,
    backward: ExportSource | None = None,
    *,
    name: str | None = None,
    shapes: Sequence[Mapping[str, int]] = (),
    against: ExportSource | None = None,
    command: Sequence[str] = COMMAND,
    executors: ExportExecutors | None = None,
) -> Package:
    """Write a package of the elites that are fastest at some shape.

    Args:
        forward: Elites of the search.
        backward: Elites of a search for the same operator with gradients; None for none.
        name: Name of the package; `<operator>_kernels` if None.
        shapes: Sizes of shapes to time kernels at, besides those that are drawn.
        against: Elites of a search at other shapes, where the package is timed beside the best.
        command: Command that starts an executor, without its options.
        executors: Started executors for that device, which several exports may share; None starts some.

    Raises:
        InvalidInput: If no elite can be exported, a shape is not one, or the searches do not match.
        ServiceError: If an executor failed.
    """
    refusals, first = list[str](), await forward.certificate(_best(forward.contenders))
    shapes = (*shapes, *(await _shapes_of(against, first)))
    async with _started(executors, first, command) as executors:
        verifier = ExportVerifier(executors)
        serving = await _portfolio("elite", forward, verifier, sample(first.operator, first.shapes, shapes), refusals)
        training = serving if first.operator.backward else None
        if backward is not None:
            _require_same(first, other := await backward.certificate(_best(backward.contenders)))
            sampled = sample(other.operator, other.shapes, shapes)
            training = await _portfolio("training", backward, verifier, sampled, refusals)
        judged_on, note = await executors.judging(), executors.note(first.device)
    rival = _best(against.contenders) if against is not None and judged_on.measures else None
    parts = PackageParts(
        name or f"{first.operator.name}_kernels",
        modules={**serving.modules, **(training.modules if training else {})},
        tree=serving.tree,
        timed=serving.timed,
        left_out_loss=serving.left_out_loss,
        training=Gradients(tuple(training.modules), training.tree, training.timed) if training else None,
        judged_on=judged_on,
        refusals=tuple(refusals),
        note=note,
        compared=_compared(serving, rival) if rival else (),
    )
    return _package(parts, _by_shape(serving), _by_shape(training) if training else {})


@asynccontextmanager
async def _started(
    executors: ExportExecutors | None, first: Certificate, command: Sequence[str]
) -> AsyncIterator[ExportExecutors]:
    """Yield given executors, or start some for an elite."""
    if executors is not None:
        yield executors
        return
    async with ExportExecutors(first.device, command=command) as started:
        yield started


def _package(parts: PackageParts, serving: Mapping[str, str], training: Mapping[str, str]) -> Package:
    stages_s = {name: dict(each.stages_s) for name, each in parts.modules.items()}
    return Package(parts.name, render(parts), serving, training, parts.refusals, parts.note, stages_s)


def _best(contenders: Sequence[ExportCandidate]) -> ExportCandidate:
    return max(contenders, key=lambda each: each.objective)


async def _shapes_of(against: ExportSource | None, first: Certificate) -> list[Mapping[str, int]]:
    """Return the benchmark shapes of another search of the operator, if there is one."""
    if against is None:
        return []
    rival = await against.certificate(_best(against.contenders))
    _require_alike(first, rival, "--against")
    return [shape.dims for shape in rival.operator.shapes]


async def _portfolio(
    kind: str, offer: ExportSource, verifier: ExportVerifier, sampled: SampledShapes, refusals: list[str]
) -> _Portfolio:
    """Verify the elites that are fastest at some shape, and grow the tree that chooses between them.

    Those that are fastest at a shape of the search are in the package, and others if they save time at timed shapes.
    """
    contest = _Contest(offer, verifier, sampled)
    winners = await contest.winners()
    chosen = winners | await contest.additions(winners)
    refusals += contest.refusals
    named = {f"{kind}_{at}": each for at, each in enumerate(chosen.values())}
    modules, sampled = await _refined(named, verifier, sampled)
    return _grown(await _capped(modules, sampled, verifier), sampled, refusals)


class _Contest:
    """Verification of a search's elites until those that are to be in a package are known.

    Attributes:
        refusals: Reasons why elites cannot be exported.
    """

    def __init__(self, offer: ExportSource, verifier: ExportVerifier, sampled: SampledShapes) -> None:
        self._offer, self._verifier, self._sampled = offer, verifier, sampled
        self._left = list(offer.contenders)
        self._verified: dict[_Key, VerifiedModule] = {}
        self._tried: dict[_Key, Mapping[str, float]] = {}
        self.refusals: list[str] = []

    async def winners(self) -> dict[_Key, VerifiedModule]:
        """Return the best elite and those that are faster at shapes of the search, verified.

        Further elites are tried meanwhile.

        Raises:
            InvalidInput: If no elite can be exported.
        """
        while self._left and len(self.refusals) < MAX_REFUSED:
            best = _best(self._left)
            shapes = [shape.key for shape in (await self._offer.certificate(best)).shapes]
            fastest = [best, *choose_elites(self._left, shapes).values()]
            winners = list({_key(each): each for each in fastest}.values())[:MAX_MODULES]
            wanted = MAX_TRIED - len(self._tried) if len(winners) < MAX_MODULES else 0
            unlike_them = unlike(self._left, winners, wanted)
            await asyncio.gather(self._verify(winners), self._try(unlike_them))
            if all(_key(each) in self._verified for each in winners):
                return {_key(each): self._verified[_key(each)] for each in winners}
        reason = f": {'; '.join(self.refusals)}" if self.refusals else ""
        raise InvalidInput(f"no elite can be exported{reason}", "SEARCH")

    async def additions(self, winners: Mapping[_Key, VerifiedModule]) -> dict[_Key, VerifiedModule]:
        """Return those of the tried elites that save time beside the winners, verified."""
        left = {_key(each): each for each in self._left if _key(each) not in winners}
        offered = {key: times for key, times in self._tried.items() if key in left}
        known: dict[str, float] = {}
        for times in (each for module in winners.values() for each in (module.times, module.pytorch)):
            known |= {key: min(time, known.get(key, time)) for key, time in times.items()}
        chosen = additions(known, offered, MAX_MODULES - len(winners))
        await self._verify([left[key] for key in chosen])
        return {key: self._verified[key] for key in chosen if key in self._verified}

    async def _verify(self, elites: Sequence[ExportCandidate]) -> None:
        async def verify(elite: ExportCandidate) -> None:
            try:
                self._verified[_key(elite)] = await self._result(elite, self._sampled)
            except NotExtractable as refusal:
                self.refusals.append(f"candidate {elite.candidate}, variant {elite.variant}: {refusal}")
                self._left.remove(elite)

        await asyncio.gather(*(verify(each) for each in elites if _key(each) not in self._verified))

    async def _try(self, elites: Sequence[ExportCandidate]) -> None:
        """Time elites at the timed shapes alone. One that fails, for whatever reason, is not tried again."""

        async def attempt(elite: ExportCandidate) -> None:
            self._tried[_key(elite)] = {}
            with suppress(NotExtractable, ServiceError):
                self._tried[_key(elite)] = (await self._result(elite, self._sampled.timed)).times

        await asyncio.gather(*(attempt(each) for each in elites if _key(each) not in self._tried))

    async def _result(self, elite: ExportCandidate, shapes: SampledShapes) -> VerifiedModule:
        return await self._verifier.verified(await self._offer.certificate(elite), shapes)


def _key(elite: ExportCandidate) -> _Key:
    return elite.candidate, elite.variant


async def _refined(
    modules: Mapping[str, VerifiedModule], verifier: ExportVerifier, sampled: SampledShapes
) -> tuple[Mapping[str, VerifiedModule], SampledShapes]:
    """Measure at further shapes as long as it is unsure there what serves them.

    Raises:
        InvalidInput: If no function of an elite is correct at those.
    """
    operator = _operator_of(modules)
    known = [dims for dims in pool(operator) if is_small_enough(operator, dims)]
    for _ in range(ROUNDS):
        new = [dims for dims in known if Shape(dims=dims).key not in sampled.spread and _serving(modules, dims)]
        unsure = TimeModel(_timed(modules, sampled), _varying(operator)).unsure(new, FURTHER)
        if not unsure:
            break
        sampled, more = sampled.and_timed(unsure), {Shape(dims=dict(dims)).key for dims in unsure}
        try:
            found = [await verifier.extended(each, sampled, more) for each in modules.values()]
        except NotExtractable as refusal:
            raise InvalidInput(f"no elite can be exported: {refusal}", "SEARCH") from refusal
        modules = dict(zip(modules, found, strict=True))
    return modules, sampled


def _grown(modules: Mapping[str, VerifiedModule], sampled: SampledShapes, refusals: list[str]) -> _Portfolio:
    """Grow the tree, and say how good it is."""
    for name, each in modules.items():
        refusals += [f"{name}: {remark}" for remark in each.remarks]
    timed = _timed(modules, sampled)
    return _Portfolio(
        modules, _tree(modules, sampled), tuple(timed), left_out_loss(timed, _varying(_operator_of(modules)))
    )


def _tree(modules: Mapping[str, VerifiedModule], sampled: SampledShapes) -> Tree:
    """Grow the tree from the times of the modules and of PyTorch, and from predictions between them."""
    operator, timed = _operator_of(modules), _timed(modules, sampled)

    def admits(name: str, sizes: Sizes) -> bool:
        return name in _serving(modules, sizes)

    varying = _varying(operator)
    predicted = TimeModel(timed, varying).at(pool(operator), admits)
    asked = features([name for name in varying if name not in operator.presences], operator.presences)
    return grow([*timed, *predicted], tuple(modules), asked)


async def _capped(
    modules: Mapping[str, VerifiedModule], sampled: SampledShapes, verifier: ExportVerifier
) -> Mapping[str, VerifiedModule]:
    """Leave out the functions that serve fewest shapes, if all modules together have too many compiled kernels."""
    if len({kernel for each in modules.values() for kernel in each.kernels}) <= MAX_COMPILED:
        return modules
    tree = _tree(modules, sampled)
    uses = Counter({(name, at): 0 for name, each in modules.items() for at in range(len(each.verdicts))})
    timed = [shape.dims for shape in sampled.all if shape.key in sampled.spread]
    for sizes, count in [*((each, 1) for each in pool(_operator_of(modules))), *((each, POOL) for each in timed)]:
        name = serving_at(tree, modules, sizes)
        at = None if name is None else modules[name].module.function_for(sizes)
        if name is not None and at is not None:
            uses[name, at] += count
    compiled, kept = set[str](), dict[str, list[int]]()
    for (name, at), _ in uses.most_common():
        kernels = modules[name].verdicts[at].kernels
        if len(compiled.union(kernels)) <= MAX_COMPILED:
            compiled.update(kernels)
            kept.setdefault(name, []).append(at)
    try:
        return {name: await reduced(modules[name], kept[name], sampled, verifier) for name in modules if name in kept}
    except NotExtractable as refusal:
        raise InvalidInput(f"no elite can be exported: {refusal}", "SEARCH") from refusal


def _timed(modules: Mapping[str, VerifiedModule], sampled: SampledShapes) -> list[TimedShape]:
    """Return the times at the spread shapes."""
    timed = []
    for shape in sampled.all:
        if shape.key in sampled.spread:
            times = {name: each.times[shape.key] for name, each in modules.items() if shape.key in each.times}
            others = [each.pytorch[shape.key] for each in modules.values() if shape.key in each.pytorch]
            timed.append(TimedShape(shape.dims, {**times, **({PYTORCH: min(others)} if others else {})}))
    return timed


def _serving(modules: Mapping[str, VerifiedModule], sizes: Sizes) -> set[str]:
    """Return the modules that can serve some sizes."""
    return {name for name, each in modules.items() if each.module.function_for(sizes) is not None}


def _operator_of(modules: Mapping[str, VerifiedModule]) -> Operator:
    return next(iter(modules.values())).module.certificate.operator


def _varying(operator: Operator) -> list[str]:
    """Return the names of the sizes that vary among the shapes of a package, and of optional inputs."""
    several = {name for name in operator.dimensions if len({shape.dims[name] for shape in operator.shapes}) > 1}
    return [name for name in operator.dimensions if name in (*operator.ranges, *operator.presences, *several)]


def _by_shape(portfolio: _Portfolio) -> dict[str, str]:
    """Return the candidate that serves each timed shape."""
    found = {}
    for shape in portfolio.timed:
        name = serving_at(portfolio.tree, portfolio.modules, shape.sizes)
        key = ",".join(f"{size}={value}" for size, value in sorted(shape.sizes.items()))
        found[key] = "PyTorch" if name is None else portfolio.modules[name].module.certificate.origin.candidate
    return found


def _compared(portfolio: _Portfolio, rival: ExportCandidate) -> tuple[ComparedShape, ...]:
    """Return the times of a package and of another search's best elite at the shapes of that search."""
    searched = {result.shape: result.mid_us for result in rival.report.shapes if result.mid_us is not None}
    found = []
    for shape in portfolio.timed:
        key = Shape(dims=dict(shape.sizes)).key
        name = serving_at(portfolio.tree, portfolio.modules, shape.sizes) or PYTORCH
        if key in searched and name in shape.times:
            found.append(ComparedShape(key, shape.times[name], searched[key]))
    return tuple(found)


def _require_same(forward: Certificate, backward: Certificate) -> None:
    """Require that both searches compute the same outputs from the same inputs, for the same device."""
    other = backward.operator
    if not other.backward:
        raise InvalidInput(
            f"{other.name} has no gradients: name a search of an operator with backward = true", "--backward"
        )
    _require_alike(forward, backward, "--backward")


def _require_alike(first: Certificate, second: Certificate, option: str) -> None:
    """Require that two searches compute the same outputs from the same inputs, for the same device."""
    one, other = first.operator, second.operator
    same = (
        one.entry == other.entry
        and [(item.name, item.shape, item.dtype, item.optional) for item in one.inputs]
        == [(item.name, item.shape, item.dtype, item.optional) for item in other.inputs]
        and [output.dtype for output in one.outputs] == [output.dtype for output in other.outputs]
        and one.scalars == other.scalars
        and digest(one.reference) == digest(other.reference)
    )
    if not same:
        raise InvalidInput(f"{other.name} is not {one.name}: entry, inputs or reference differ", option)
    if first.device != second.device:
        raise InvalidInput(f"its device is {second.device.name}, not {first.device.name}", option)
