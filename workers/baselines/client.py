"""The executor's side: baselines from the cache, or from a process that measures them. No CUDA or torch here."""

import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import IO, Generic, TypeVar

from pydantic import ValidationError

from workers.assembler import assemble_kernel
from workers.baselines.cache import BaselineKey, CopyKey, Figure, FigureCache, Key
from workers.baselines.messages import Baseline, BaselineReply, BaselineRequest, CopySize, CopyTime
from workers.errors import Transient
from workers.line_process import LineProcess
from workers.protocol import Bundle, Device, Graph, Operator, Plan
from workers.safe_python import PYTHON

COMMAND = (*PYTHON, "-m", "workers.baselines")
"""Command of the process. It takes `--card` and one request per line on standard input; replies go to standard
output."""
START_S = 120.0
"""Seconds for it to start: importing torch and opening the card takes 6 s on a warm H200 host."""
SHAPE_S = 300.0
"""Seconds for one shape: no more than two contenders use up the 120 s that each is given to get ready."""
REQUESTS_KEPT = 64
"""Maximum number of pacers whose baselines are in memory, each a few numbers."""
CLOSING_S = 0.1
"""Seconds between two attempts to end the process."""
LAST_WORDS_CHARS = 600
"""Characters kept of the last line that a failed process wrote."""


class BaselinesFailed(Transient):
    """The process that measures baselines died, or its figures could not be kept."""


def measure_baselines(
    operator: Operator,
    graphs: Sequence[Graph],
    pacer: Bundle,
    device: Device,
    ask: Callable[[BaselineRequest], BaselineReply],
    folder: Path | None,
    versions: Mapping[str, str],
) -> dict[str, Baseline]:
    """Time the baselines of an operator beside a pacer, at every benchmark shape.

    Args:
        operator: The contract.
        graphs: The reference, at least at the pacer's benchmark shapes.
        pacer: An assembled bundle; plans of other shapes are left out.
        device: The hardware class of the figures.
        ask: Measures missing figures (`BaselineProcess.ask`).
        folder: Folder whose subfolder caches figures; None measures every time.
        versions: Versions of torch, triton, driver and cuda, and the card's name, which figures depend on.

    Returns:
        Baselines by shape key, each with the time of a copy of its bytes.

    Raises:
        BaselinesFailed: If they could not be measured.
    """
    keys = _keys(operator, pacer, device, versions)
    sizes = {plan.shape.key: CopySize.of(operator, plan) for plan in pacer.benchmarks}
    copy_keys = {size: CopyKey(size=size, device=device, versions=dict(versions)) for size in sizes.values()}
    known = _Known(BaselineKey, Baseline, folder)
    copied = _Known(CopyKey, CopyTime, folder)
    found = known.find(keys)
    copies = copied.find(copy_keys)
    missing = [plan for plan in pacer.benchmarks if plan.shape.key not in found]
    lacking = [size for size in copy_keys if size not in copies]
    if missing or lacking:
        reply = ask(request_for(operator, graphs, pacer, missing, lacking))
        found |= known.keep(keys, {baseline.shape: baseline for baseline in reply.baselines})
        copies |= copied.keep(copy_keys, {copy.size: copy for copy in reply.copies})
    times = {shape: copies[size].time_us for shape, size in sizes.items() if size in copies}
    return {shape: baseline.model_copy(update={"copy_us": times.get(shape)}) for shape, baseline in found.items()}


def measure_copy(
    operator: Operator,
    bundle: Bundle,
    plan: Plan,
    device: Device,
    ask: Callable[[BaselineRequest], BaselineReply],
    folder: Path | None,
    versions: Mapping[str, str],
) -> float | None:
    """Time a copy of the bytes of a plan's shape alone, as `measure_baselines` does, and under the same key.

    Returns:
        Microseconds; None if the card's free memory does not suffice.

    Raises:
        BaselinesFailed: If the process failed.
    """
    size = CopySize.of(operator, plan)
    keys = {size: CopyKey(size=size, device=device, versions=dict(versions))}
    copied = _Known(CopyKey, CopyTime, folder)
    found = copied.find(keys)
    if not found:
        reply = ask(request_for(operator, (), bundle, (), [size]))
        found |= copied.keep(keys, {copy.size: copy for copy in reply.copies})
    return found[size].time_us if size in found else None


Name = TypeVar("Name")


class _Known(Generic[Key, Figure]):
    """Figures of one kind in a folder, found and kept under names of the caller's; None keeps nothing."""

    def __init__(self, key: type[Key], figure: type[Figure], folder: Path | None) -> None:
        self._cache: FigureCache[Key, Figure] | None = None
        if folder is not None:
            self._cache = FigureCache(folder / "baselines", key, figure)

    def find(self, keys: Mapping[Name, Key]) -> dict[Name, Figure]:
        """Return what is known of the keys, by name."""
        if self._cache is None:
            return {}
        return {name: kept for name, key in keys.items() if (kept := self._cache.find(key))}

    def keep(self, keys: Mapping[Name, Key], figures: Mapping[Name, Figure]) -> Mapping[Name, Figure]:
        """Keep new figures, and return them.

        Raises:
            BaselinesFailed: If the folder cannot be written to.
        """
        try:
            for name, figure in figures.items() if self._cache else ():
                assert self._cache is not None
                self._cache.keep(keys[name], figure)
        except OSError as error:
            raise BaselinesFailed(f"a baseline cannot be stored: {error}") from error
        return figures


def request_for(
    operator: Operator, graphs: Sequence[Graph], pacer: Bundle, plans: Sequence[Plan], copies: Sequence[CopySize] = ()
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
            digest: b64encode(assemble_kernel(kernel).code).decode()
            for digest, kernel in (reduced.kernels.items() if plans else ())
        },
        copies=tuple(copies),
    )


class BaselineProcess:
    """The process that measures baselines on one card, started by the first request and kept for later ones.

    Most of the time of a first answer is importing TorchInductor, compiling our own kernels and opening the card.
    Without requests the process ends after a while (`workers.baselines.__main__`). It uses the card only for a request.

    Args:
        card: Index of the card to measure on.
    """

    def __init__(self, card: int) -> None:
        self._card = card
        self._process: LineProcess | None = None
        self._complaints: IO[bytes] = BytesIO()
        self._resources = ExitStack()

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

    def _started(self) -> LineProcess:
        if self._process is None or not self._process.alive:
            self.close()
            self._complaints = self._resources.enter_context(os.fdopen(os.memfd_create("complaints"), "w+b"))
            self._process = LineProcess((*COMMAND, "--card", str(self._card)), self._complaints)
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

    def __init__(self, process: BaselineProcess, device: Device, folder: Path | None) -> None:
        """Prepare; figures are kept in `folder`, None keeps them in memory alone."""
        self._device = device
        self._folder = folder
        self._process = process
        self._thread = ThreadPoolExecutor(1)
        self._tasks: dict[tuple[str, str], Future[dict[str, Baseline]]] = {}

    def begin(
        self,
        operator: Operator,
        graphs: tuple[Graph, ...],
        pacer: Bundle,
        versions: Mapping[str, str],
        *,
        again: bool = False,
    ) -> bool:
        """Begin to measure, unless that was begun. Returns True if it begins now.

        Args:
            operator: The contract.
            graphs: The reference; at least at the pacer's benchmark shapes.
            pacer: The bundle that baselines are related to.
            versions: Versions that figures depend on.
            again: True to repeat a request that failed.
        """
        key = operator.digest, pacer.identity
        known = self._tasks.get(key)
        if known is not None and not (again and known.done() and known.exception() is not None):
            return False
        while len(self._tasks) >= REQUESTS_KEPT:
            del self._tasks[next(iter(self._tasks))]
        ask, folder = self._process.ask, self._folder
        task = self._thread.submit(measure_baselines, operator, graphs, pacer, self._device, ask, folder, versions)
        self._tasks[key] = task
        return True

    def find(self, operator: Operator, pacer: Bundle, *, wait: bool = False) -> dict[str, Baseline]:
        """Return the baselines of a pacer by shape key; empty while they are being measured, or if that failed.

        Raises:
            BaselinesFailed: If the caller waits, and they could not be measured.
        """
        task = self._tasks.get((operator.digest, pacer.identity))
        if task is None or not (wait or task.done()):
            return {}
        try:
            return task.result()
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
        task = self._thread.submit(measure_copy, operator, bundle, plan, self._device, ask, self._folder, versions)
        return task.result()

    def close(self) -> None:
        """End the process. Idempotent."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.interrupt()
        while wait(self._tasks.values(), CLOSING_S).not_done:
            self._process.interrupt()  # The thread was just starting it.
        self._process.close()


def liger_version() -> str:
    """Return the version of liger-kernel, or `absent`."""
    try:
        return version("liger-kernel")
    except PackageNotFoundError:
        return "absent"


def _keys(operator: Operator, pacer: Bundle, device: Device, versions: Mapping[str, str]) -> dict[str, BaselineKey]:
    """Return the cache keys of all wanted figures, by shape key."""
    return {
        plan.shape.key: BaselineKey(
            operator=operator.digest,
            shape=plan.shape.key,
            device=device,
            pacer=pacer.restricted([plan]).identity,
            versions={**versions, "liger": liger_version()},
        )
        for plan in pacer.benchmarks
    }


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
