"""The executor's side: baselines from the cache, or from a process that measures them. No CUDA or torch here."""

import os
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from threading import Event
from types import MappingProxyType
from typing import IO, TypeVar

from pydantic import ValidationError

from workers.assembler import assemble_kernel, ptxas_of
from workers.baselines.cache import BaselineKey, CopyKey, FigureCache, FigureKey
from workers.baselines.messages import Baseline, BaselineReply, BaselineRequest, CopySize, CopyTime
from workers.errors import Transient
from workers.line_process import LineProcess
from workers.protocol import Bundle, Device, Graph, Operator, Plan
from workers.safe_python import PYTHON

COMMAND = (*PYTHON, "-m", "workers.baselines")
"""Command of the process. It takes `--card` and one request per line on standard input; replies go to standard
output."""
LIBRARIES = {"liger": "liger-kernel", "helion": "helion"}
"""Distributions of the optional libraries, by the baseline's name."""
SUBFOLDER = "baselines"
"""Subfolder of cached figures in an executor's folder."""
START_S = 600.0
"""Seconds for it to start, and to wait until other processes have measured theirs on the card. Importing torch and
opening the card takes 6 s on a warm H200 host."""
TUNING_S = float(os.environ.get("HELION_AUTOTUNE_BUDGET_SECONDS") or 60)
"""Seconds that Helion tunes a shape for. It compiles for most of them, on all cores. A search never inherits the
variable, which is Helion's own."""
EFFORT = os.environ.get("HELION_AUTOTUNE_EFFORT") or "quick"
"""Effort of its tuner. The quick one refines its best configurations within a minute; the full one, its default, still
draws random ones then. Both keep to the seconds, but for compilations that have begun."""
SHAPE_S = 360.0 + TUNING_S
"""Seconds for one shape: no more than three contenders use up the time that each is given to get ready."""
REQUESTS_KEPT = 64
"""Maximum number of pacers whose baselines are in memory, each a few numbers."""
CLOSING_S = 0.1
"""Seconds between two attempts to end the process, and between two looks of a caller that waits."""
NOTHING: Mapping[str, str] = MappingProxyType({})
"""No variables."""
LAST_WORDS_CHARS = 600
"""Characters kept of the last line that a failed process wrote."""


Figures = TypeVar("Figures")
Named = str | CopySize
"""Name of a wanted figure: a shape key of baselines, or the size of a copy."""
AnyFigure = Baseline | CopyTime


class BaselinesFailed(Transient):
    """The process that measures baselines died, or its figures could not be kept."""


def measure_baselines(
    operator: Operator,
    graphs: Sequence[Graph],
    pacer: Bundle,
    device: Device,
    ask: Callable[[BaselineRequest], BaselineReply],
    cache: FigureCache | None,
    versions: Mapping[str, str],
) -> dict[str, Baseline]:
    """Time the baselines of an operator beside a pacer, at every benchmark shape.

    Of several processes with one cache only one measures; the others wait for its figures.

    Args:
        operator: The contract.
        graphs: The reference, at least at the pacer's benchmark shapes.
        pacer: An assembled bundle; plans of other shapes are left out.
        device: The hardware class of the figures.
        ask: Measures missing figures (`BaselineProcess.ask`).
        cache: Figures measured before, by any process; None measures every time.
        versions: Versions of torch, triton, driver and cuda, and the card's name, which figures depend on.

    Returns:
        Baselines by shape key, each with the time of a copy of its bytes.

    Raises:
        BaselinesFailed: If they could not be measured.
    """
    keys = _keys(operator, pacer, device, versions)
    sizes = {plan.shape.key: CopySize.of(operator, plan) for plan in pacer.benchmarks}

    def measure(missing: Collection[Named]) -> dict[Named, AnyFigure]:
        plans = [plan for plan in pacer.benchmarks if plan.shape.key in missing]
        copies = [size for size in dict.fromkeys(sizes.values()) if size in missing]
        return _by_name(ask(request_for(operator, graphs, pacer, plans, copies)))

    found = _obtain(keys | _copy_keys(sizes.values(), device, versions), measure, cache)
    copies = {shape: found.get(size) for shape, size in sizes.items()}
    return {
        shape: baseline.model_copy(update={"copy_us": copy.time_us if isinstance(copy, CopyTime) else None})
        for shape, copy in copies.items()
        if isinstance(baseline := found.get(shape), Baseline)
    }


def measure_eager(
    operator: Operator, graphs: Sequence[Graph], pacer: Bundle, ask: Callable[[BaselineRequest], BaselineReply]
) -> dict[str, Baseline]:
    """Time eager PyTorch alone beside a pacer, in a few rounds at every benchmark shape. Nothing is kept.

    Raises:
        BaselinesFailed: If the process failed.
    """
    reply = ask(request_for(operator, graphs, pacer, pacer.benchmarks, eager_alone=True))
    return {baseline.shape: baseline for baseline in reply.baselines}


def measure_copy(
    operator: Operator,
    bundle: Bundle,
    plan: Plan,
    device: Device,
    ask: Callable[[BaselineRequest], BaselineReply],
    cache: FigureCache | None,
    versions: Mapping[str, str],
) -> float | None:
    """Time a copy of the bytes of a plan's shape alone, as `measure_baselines` does, and under the same key.

    Returns:
        Microseconds; None if the card's free memory does not suffice.

    Raises:
        BaselinesFailed: If the process failed.
    """
    size = CopySize.of(operator, plan)

    def measure(missing: Collection[Named]) -> dict[Named, AnyFigure]:
        return _by_name(ask(request_for(operator, (), bundle, (), [size])))

    found = _obtain(_copy_keys([size], device, versions), measure, cache).get(size)
    return found.time_us if isinstance(found, CopyTime) else None


def _obtain(
    keys: Mapping[Named, FigureKey],
    measure: Callable[[Collection[Named]], dict[Named, AnyFigure]],
    cache: FigureCache | None,
) -> dict[Named, AnyFigure]:
    """Return figures by name: those of a cache, and the others measured in this process's turn and kept."""
    if cache is None:
        return measure(keys)
    found = _cached(cache, keys)
    if missing := _missing(keys, found):
        try:
            with cache.turn(keys[missing[0]]):
                found = _cached(cache, keys)
                missing = _missing(keys, found)
                measured = measure(missing) if missing else {}
                for name, figure in measured.items():
                    cache.keep(keys[name], figure)
        except OSError as error:
            raise BaselinesFailed(f"a baseline cannot be stored: {error}") from error
        found |= measured
    return found


def _are_due(cache: FigureCache, keys: Mapping[Named, FigureKey]) -> bool:
    """Return True if figures are missing, and no process measures them."""
    missing = _missing(keys, _cached(cache, keys))
    return bool(missing) and not cache.is_measured(keys[missing[0]])


def _missing(keys: Mapping[Named, FigureKey], found: Mapping[Named, AnyFigure]) -> list[Named]:
    return [name for name in keys if name not in found]


def _cached(cache: FigureCache, keys: Mapping[Named, FigureKey]) -> dict[Named, AnyFigure]:
    found: dict[Named, AnyFigure] = {}
    for name, key in keys.items():
        kept = cache.find(key, Baseline) if isinstance(key, BaselineKey) else cache.find(key, CopyTime)
        if kept is not None:
            found[name] = kept
    return found


def _by_name(reply: BaselineReply) -> dict[Named, AnyFigure]:
    return {baseline.shape: baseline for baseline in reply.baselines} | {copy.size: copy for copy in reply.copies}


def request_for(
    operator: Operator,
    graphs: Sequence[Graph],
    pacer: Bundle,
    plans: Sequence[Plan],
    copies: Sequence[CopySize] = (),
    *,
    eager_alone: bool = False,
) -> BaselineRequest:
    """Build the request for some of a pacer's plans, whose kernels are assembled again, and for copies.

    Without plans it is for copies alone; a bundle has at least one plan, which then counts for its target only.
    """
    reduced = pacer.restricted(plans or pacer.plans[:1])
    by_shape = {graph.shape.key: graph for graph in graphs}
    return BaselineRequest(
        operator=operator,
        graphs=tuple(by_shape[plan.shape.key] for plan in plans),
        pacer=reduced,
        machine_code={
            digest: b64encode(assemble_kernel(kernel, ptxas_of(reduced)).code).decode()
            for digest, kernel in (reduced.kernels.items() if plans else ())
        },
        copies=tuple(copies),
        eager_alone=eager_alone,
    )


class BaselineProcess:
    """The process that measures baselines on one card, started by the first request and kept for later ones.

    Most of the time of a first answer is importing TorchInductor, compiling our own kernels and opening the card.
    Without requests the process ends after a while (`workers.baselines.__main__`). It uses the card only for a request.

    Args:
        card: Index of the card to measure on.
        environment: Variables that it has besides this process's own.
        turn: Number of its turn: processes with the same number measure one after the other.
    """

    def __init__(self, card: int, environment: Mapping[str, str] = NOTHING, turn: int = 0) -> None:
        self._card, self._environment, self._turn = card, environment, turn
        self._process: LineProcess | None = None
        self._complaints: IO[bytes] = BytesIO()
        self._resources = ExitStack()

    def start(self, target: str = "") -> None:
        """Start the process now: its imports take seconds. With a target, also what its first request would need."""
        self._started(("--warm-up", target) if target else ())

    def ask(self, request: BaselineRequest) -> BaselineReply:
        """Measure baselines; the process takes turns on the card.

        Raises:
            BaselinesFailed: If the process dies, takes too long, or sends an invalid reply; the next request starts
                another.
        """
        process = self._started()
        process.say(request.model_dump_json().encode())
        timeout_s = START_S + SHAPE_S * len(request.graphs)
        try:
            answer = process.hear(timeout_s)
            if answer is None:
                raise BaselinesFailed(f"they took more than {timeout_s:g} s: {self._last_words()}")
            return _read(answer, request)
        except (EOFError, OSError) as error:
            process.kill()
            raise BaselinesFailed(
                f"the baselines process ended with status {process.status}: {self._last_words()}"
            ) from error
        except BaselinesFailed:
            process.kill()
            raise

    def interrupt(self) -> None:
        """End the process from another thread than the one that asks, which then fails. Idempotent."""
        if self._process is not None:
            self._process.interrupt()

    def close(self) -> None:
        """End the process and its children. Idempotent."""
        self._resources.close()
        self._process = None

    def _started(self, further: tuple[str, ...] = ()) -> LineProcess:
        if self._process is None or not self._process.alive:
            self.close()
            self._complaints = self._resources.enter_context(os.fdopen(os.memfd_create("complaints"), "w+b"))
            turn = ("--turn", str(self._turn)) if self._turn else ()
            command = (*COMMAND, "--card", str(self._card), *turn, *further)
            self._process = LineProcess(command, self._complaints, os.environ | self._environment)
            self._resources.callback(self._process.kill)
        return self._process

    def _last_words(self) -> str:
        """Return the last line of its standard error: for a traceback, the error."""
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace").strip().rpartition("\n")[2][:LAST_WORDS_CHARS]


class BackgroundBaselines:
    """Baselines of one card, measured by a process of their own while the executor judges, one request at a time.

    A request that failed is made again only for a caller that waits, which then learns the reason.
    """

    def __init__(
        self, process: BaselineProcess, device: Device, folder: Path | None, rest: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare; figures are kept in `folder`, None keeps them in memory alone.

        A caller that waits calls `rest` meanwhile: the process may wait for memory that the caller holds.
        """
        self._rest = rest
        self._closed = Event()
        self._device = device
        self._cache = None if folder is None else FigureCache(folder / SUBFOLDER, self._closed.is_set)
        self._process = process
        self._thread = ThreadPoolExecutor(1)
        self._tasks: dict[tuple[str, str, bool], Future[dict[str, Baseline]]] = {}

    def begin(
        self,
        operator: Operator,
        graphs: tuple[Graph, ...],
        pacer: Bundle,
        versions: Mapping[str, str],
        *,
        again: bool = False,
        eager_alone: bool = False,
    ) -> bool:
        """Begin to measure, unless that was begun. Returns True if it begins now, and no other process has.

        Args:
            operator: The contract.
            graphs: The reference; at least at the pacer's benchmark shapes.
            pacer: The bundle that baselines are related to.
            versions: Versions that figures depend on.
            again: True to repeat a request that failed.
            eager_alone: True for `measure_eager` in place of `measure_baselines`.
        """
        key = operator.digest, pacer.identity, eager_alone
        known = self._tasks.get(key)
        if known is not None and not (again and known.done() and known.exception() is not None):
            return False
        while len(self._tasks) >= REQUESTS_KEPT:
            del self._tasks[next(iter(self._tasks))]
        if eager_alone:
            self._tasks[key] = self._thread.submit(measure_eager, operator, graphs, pacer, self._process.ask)
            return True
        given = (operator, graphs, pacer, self._device, self._process.ask, self._cache, versions)
        is_first = self._cache is None or _are_due(self._cache, _keys(operator, pacer, self._device, versions))
        self._tasks[key] = self._thread.submit(measure_baselines, *given)
        return is_first

    def find(
        self, operator: Operator, pacer: Bundle, *, wait: bool = False, eager_alone: bool = False
    ) -> dict[str, Baseline]:
        """Return the baselines of a pacer by shape key; empty while they are being measured, or if that failed.

        Raises:
            BaselinesFailed: If the caller waits, and they could not be measured.
        """
        task = self._tasks.get((operator.digest, pacer.identity, eager_alone))
        if task is None or not (wait or task.done()):
            return {}
        try:
            return self._awaited(task)
        except BaselinesFailed:
            if wait:
                raise
            return {}

    def copy_us(self, operator: Operator, bundle: Bundle, plan: Plan, versions: Mapping[str, str]) -> float | None:
        """Return the time of a copy of the bytes of a plan's shape, after earlier requests; see `measure_copy`.

        Raises:
            BaselinesFailed: If the process failed.
        """
        ask = self._process.ask
        return self._awaited(
            self._thread.submit(measure_copy, operator, bundle, plan, self._device, ask, self._cache, versions)
        )

    def _awaited(self, task: Future[Figures]) -> Figures:
        """Return the result of a task once it is done."""
        while not task.done():
            wait([task], CLOSING_S)
            self._rest()
        return task.result()

    def close(self) -> None:
        """End the process. Idempotent."""
        self._closed.set()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.interrupt()
        while wait(self._tasks.values(), CLOSING_S).not_done:
            self._process.interrupt()  # The thread was just starting it.
        self._process.close()


def library_versions() -> dict[str, str]:
    """Return the versions of the optional libraries among the baselines, or `absent`, by the baseline's name."""
    return {name: _version(package) for name, package in LIBRARIES.items()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _keys(operator: Operator, pacer: Bundle, device: Device, versions: Mapping[str, str]) -> dict[Named, FigureKey]:
    """Return the cache keys of the baselines of a pacer, by shape key."""
    return {
        plan.shape.key: BaselineKey(
            operator=operator.digest,
            shape=plan.shape.key,
            device=device,
            pacer=pacer.restricted([plan]).identity,
            versions={**versions, **library_versions()},
        )
        for plan in pacer.benchmarks
    }


def _copy_keys(sizes: Collection[CopySize], device: Device, versions: Mapping[str, str]) -> dict[Named, FigureKey]:
    """Return the cache keys of copies, by size."""
    return {size: CopyKey(size=size, device=device, versions=dict(versions)) for size in sizes}


def _read(answer: bytes, request: BaselineRequest) -> BaselineReply:
    try:
        reply = BaselineReply.model_validate_json(answer)
    except ValidationError as error:
        raise BaselinesFailed(f"the baselines process sent an invalid reply: {error}") from error
    if [baseline.shape for baseline in reply.baselines] != [graph.shape.key for graph in request.graphs]:
        raise BaselinesFailed("the baselines process replied for other shapes than requested")
    if not {copy.size for copy in reply.copies} <= {*request.copies}:
        raise BaselinesFailed("the baselines process replied for other copies than requested")
    return reply
