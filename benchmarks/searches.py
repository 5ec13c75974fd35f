"""Searches on a card, without a language model, against eager, torch.compile, max-autotune and liger-kernel.

    python -m benchmarks.searches --suite anchor catalogue --minutes 9 --out results

Each row is one search over one shape (`suites.py`). The figures of a row are from one run after the search: the best
kernel's plan is replayed, and the baselines are timed, as cold CUDA graphs interleaved in one process. Every row is a
line of `<suite>.jsonl` as soon as it is known; said again with the same folder, what has figures is not searched again.
A search compares with eager PyTorch alone, so that it begins soon. When it has ended its row is compared with all, and
no search goes on meanwhile: a baseline that is tuned beside others is a weaker one. With several suites their rows
follow each other, and their lines are in one file, `anchor-catalogue.jsonl`.

Several cards of a host are used by as many processes, each with a folder, cores and a share of the rows of its own;
then all their lines become `<suite>.json`, a table and a plot:

    taskset -c 0-15 python -m benchmarks.searches --out a --card 0 --share 0/2 --whole --ahead 4
    taskset -c 16-31 python -m benchmarks.searches --out b --card 1 --share 1/2
    python -m benchmarks.searches --out results --lines a/anchor.jsonl b/anchor.jsonl

Finished files, such as `results/anchor.json` itself, may be among them. Of a row that is there twice the fastest kernel
counts, against the fastest baseline of either run. `--baselines native` leaves out those that compile, where an earlier
run of the row has them: max-autotune takes a minute at attention, without a result. `--only` takes several regular
expressions, and searches in their order. `--ahead` compiles kernels of baselines while a search goes on, in processes
of low priority (`inductor_compiler`); they are chosen and timed when it has ended.

`--device model:sm_90` tries the script out where there is no card: it predicts, and compares with nothing.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import median

from archive.records import CandidateRecord, SearchRecord, SearchState
from benchmarks.baseline_comparison import REASON_CHARS, Compare, compared, figures_of
from benchmarks.comparison_report import NOT_REACHED, conclude, lines_of
from benchmarks.compile_ahead import CompileAhead
from benchmarks.figures import FigureRows, LineLog, Row, device_of, share_of, visible_card
from benchmarks.record import RESULTS
from benchmarks.suites import SUITES, CardRates, SuiteEntry, suite
from kernelreef.states import ENDED
from service.analysis.kernelbench import speedups_of
from service.coordinator import Coordinator
from service.errors import Conflict, ServiceError
from service.evaluation.reports import reports_on
from service.logs import configure
from service.metrics import METRICS
from service.requests import SearchRequest
from service.settings import Settings, usable_cores
from workers.baselines import BaselineProcess
from workers.protocol import Bundle, Device, Graph, Operator, Ratio

POLL_S = 0.5
AROUND_S = 30.0
"""Seconds that a row takes besides its search, before one is known."""
SHORTEST_S = 10.0
"""A search that would get less is not begun."""
RATES_S = 120.0
LOG_CHARS = 200_000


@dataclass(frozen=True)
class SearchTerms:
    """Settings of the searches.

    Attributes:
        device: Where.
        evaluations: Most of a search.
        seconds: Most of a search, from when its seed and baselines are known.
        ready_s: Most until then.
        seed: Drives proposals.
        emitters: Where candidates come from.
        until: When nothing more is begun, by the monotonic clock.
        whole: True if a search is only begun if there is time for all of its seconds.
    """

    device: Device
    evaluations: int
    seconds: float
    ready_s: float
    seed: int
    emitters: tuple[str, ...]
    until: float
    whole: bool = False


def seconds_for(left_s: float, rows: int, around_s: float, most_s: float, *, whole: bool = False) -> float:
    """Seconds for the next search, so that all rows that are left get as many; 0 if that is too little.

    Args:
        left_s: Of the whole run.
        rows: Still to do, this one included.
        around_s: Of a row besides its search.
        most_s: Of any search.
        whole: True for the most or nothing.
    """
    if whole:
        return most_s if left_s >= around_s + most_s else 0.0
    even = min(most_s, left_s / rows - around_s)
    if even >= SHORTEST_S:
        return even
    # Not enough for all: those that come first get the least that is worth it.
    return SHORTEST_S if left_s >= around_s + SHORTEST_S else 0.0


class RowLog:
    """Log of rows: lines of a file, and progress messages.

    Args:
        lines: The file.
        device: Where rows are searched for.
    """

    def __init__(self, lines: LineLog, device: Device) -> None:
        self._lines, self._device = lines, device

    def __call__(self, entry: SuiteEntry, row: Row) -> None:
        """Note what is known of a row."""
        head = {"kind": "row", "row": entry.key, "operator": entry.operator, "shape": entry.shape}
        self._lines.add({**head, "device": self._device.name, **row})
        shown = {name: row.get(name) for name in ("state", "reason", "evaluations", "reef_us", "over_best")}
        print(entry.key, json.dumps(shown), flush=True)


class CardQueue:
    """Rows one after the other on one card.

    Args:
        coordinator: Runs the searches.
        terms: How.
        note: Takes rows, as soon as something is known of them.
        compare: Compares what was found, when its search has ended; None where nothing is compared.
        ahead: Compiles baselines while a search goes on; None to compile nothing ahead.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        terms: SearchTerms,
        note: RowLog,
        compare: Compare | None = None,
        *,
        ahead: CompileAhead | None = None,
    ) -> None:
        self._coordinator, self._terms, self._note, self._compare = coordinator, terms, note, compare
        self._ahead = ahead
        self._around_s: list[float] = []

    async def run(self, entries: Sequence[SuiteEntry]) -> None:
        """Search for all, as long as there is time; the next one's reference is ready when its turn comes."""
        ahead: SearchRecord | None = None
        for number, (entry, upcoming) in enumerate(zip_longest(entries, entries[1:])):
            around_s = self._around()
            left_s = self._terms.until - time.monotonic()
            seconds = seconds_for(left_s, len(entries) - number, around_s, self._terms.seconds, whole=self._terms.whole)
            if not seconds:
                self._note(entry, {"state": NOT_REACHED, "reason": "no time was left"})
                ahead = None
                continue
            started, before = time.monotonic(), spent()
            try:
                search, ahead = ahead or await self._waiting(entry), None
                search = await self._ready(search)
                self._ask_ahead(entry, search)
                if upcoming is not None:
                    with suppress(ServiceError):  # It is said when its turn comes.
                        ahead = await self._waiting(upcoming)
                row, best = await self._row(entry, search, seconds, self.readiness(started, before))
            except ServiceError as error:
                self._note(entry, {"state": "failed", "reason": str(error)[:REASON_CHARS]})
                continue
            if best is not None and self._compare is not None:
                self._note(entry, {**row, **await compared(self._compare, entry, search.graphs, best)})
            self._around_s.append(time.monotonic() - started - row["search_s"])

    def _around(self) -> float:
        """Return the seconds that the next row is expected to take besides its search."""
        if self._terms.whole:
            return median(self._around_s or [AROUND_S])
        # Not the median: a few rows that took long would keep all others from being begun.
        return min(self._around_s, default=AROUND_S)

    def _ask_ahead(self, entry: SuiteEntry, search: SearchRecord) -> None:
        """Have the baselines at a row's shape compiled while it is searched for."""
        if self._ahead is None:
            return
        for graph in map(Graph.model_validate, search.graphs):
            if graph.shape.dims == dict(entry.dims):
                self._ahead.ask(Operator.model_validate(entry.contract()), graph)

    @staticmethod
    def readiness(started: float, before: Mapping[str, float]) -> Row:
        """Return what it took until the seeds were judged."""
        return {"ready_s": round(time.monotonic() - started, 1), "ready_spent": spent_since(before)}

    async def _waiting(self, entry: SuiteEntry) -> SearchRecord:
        """A search that exports its reference, and then waits for its turn."""
        return await self._coordinator.pause((await self._coordinator.submit(self._request(entry))).id)

    def _request(self, entry: SuiteEntry) -> SearchRequest:
        terms = self._terms
        # What is compared in the end need not be made ready before the first kernel is judged.
        alone = {} if self._compare is None else {"baselines": []}
        return SearchRequest(
            operator={**entry.contract(), **alone},
            devices=(terms.device.name,),
            evaluations=terms.evaluations,
            seed=terms.seed,
            emitters=terms.emitters,
        )

    async def _ready(self, search: SearchRecord) -> SearchRecord:
        """Let a search go on until its reference seed is judged; it is stopped if that takes too long."""
        limit = min(time.monotonic() + self._terms.ready_s, self._terms.until)
        search = await self._coordinator.store.searches.get(search.id)
        if search.state is SearchState.PAUSED:
            search = await self._coordinator.resume(search.id)
        while search.state is SearchState.PREPARING and time.monotonic() < limit:
            await asyncio.sleep(POLL_S)
            search = await self._coordinator.store.searches.get(search.id)
        return search

    async def _row(
        self, entry: SuiteEntry, search: SearchRecord, seconds: float, ready: Row
    ) -> tuple[Row, Bundle | None]:
        """Search for one entry; what is known of it, and the best kernel's bundle."""
        running = time.monotonic()
        while search.state is SearchState.RUNNING and await self._goes_on(search, time.monotonic() - running, seconds):
            await asyncio.sleep(POLL_S)
            search = await self._coordinator.store.searches.get(search.id)
        searched = time.monotonic() - running
        if search.state not in ENDED:
            prepared = search.state is not SearchState.PREPARING
            with suppress(Conflict):  # It may have ended by itself just now.
                await self._coordinator.stop(search.id)
            search = await self._coordinator.store.searches.get(search.id)
            search = search if prepared else replace(search, reason="its seed was not judged in time")
        row, best = await self._found(search)
        row |= {**ready, "search_s": round(searched, 1)}
        self._note(entry, row)
        return row, best

    async def _goes_on(self, search: SearchRecord, ran_s: float, seconds: float) -> bool:
        """Return False once a search that has run for a while has had its seconds."""
        return ran_s < seconds

    async def _found(self, search: SearchRecord) -> tuple[Row, Bundle | None]:
        """Return the result of a search, and the best kernel's bundle if it found a correct one."""
        store, device = self._coordinator.store, self._terms.device.name
        progress = await store.elites.progress(search.id, device, 240)
        row: Row = {
            "state": search.state.value,
            "reason": search.reason,
            "evaluations": progress.evaluated,
            "device_s": round((await store.candidates.count(search.id)).device_ms / 1000, 2),
            "correct": progress.correct,
            "elites": progress.elites,
            "seeds": [each.outcome for each in await store.candidates.seeds(search.id)],
            "seed": self._terms.seed,
            "emitters": self._terms.emitters,
        }
        best = await store.elites.best(search.id, device)
        if best is None:
            return row, None
        candidate = await store.candidates.get(best.candidate)
        bundle = Bundle.model_validate_json((await store.bundles.get(best.bundle)).document)
        report = next((each for each in await reports_on(store, candidate.id) if each.job == best.job), None)
        ratio = Ratio(low=best.low, mid=best.mid, high=best.high)
        over = {} if report is None else speedups_of(report, ratio)
        told = {
            "over": {name: each.model_dump() for name, each in over.items()},
            "objective": best.objective,
            "archive_low": best.low,
            "archive_mid": best.mid,
            "archive_high": best.high,
            "emitter": candidate.emitter,
            "root_emitter": await self._root_emitter(candidate),
            "source": candidate.source,
            "configuration": bundle.configuration,
        }
        return row | told, bundle

    async def _root_emitter(self, candidate: CandidateRecord) -> str:
        """Return the emitter of the first candidate of a line, by first parents."""
        return (await self._root(candidate)).emitter

    async def _root(self, candidate: CandidateRecord) -> CandidateRecord:
        while candidate.parents:
            candidate = await self._coordinator.store.candidates.get(candidate.parents[0])
        return candidate


def spent() -> dict[str, float]:
    """Seconds of all jobs so far and how many there were, by kind and stage."""
    samples = (sample for metric in METRICS.registry.collect() for sample in metric.samples)
    known = ("reef_stage_seconds_sum", "reef_stage_seconds_count")
    return {
        f"{each.labels['kind']} {each.labels['stage']} {each.name.rpartition('_')[2]}": each.value
        for each in samples
        if each.name in known
    }


def spent_since(before: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds spent since a moment, and the number of jobs."""
    return {name: round(total - before.get(name, 0.0), 2) for name, total in spent().items()}


def measured_rates(card: int) -> tuple[CardRates, Row]:
    """Measure the rates of a card for floors, in a process of their own, which locks the card meanwhile.

    Raises:
        SystemExit: If it cannot be measured.
    """
    command = (sys.executable, "-m", "benchmarks.rates", "--card", str(card))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RATES_S, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"the card's rates cannot be measured: {ended.stderr[-500:]}")
    said: Row = json.loads(ended.stdout.splitlines()[-1])
    return CardRates(max(said["copied_bytes_per_s"], said["read_bytes_per_s"]), said["matrix_flops_per_s"]), said


def noted_rates(lines: LineLog, card: int) -> CardRates:
    """Measure the rates of the first visible card, and note them as those of a card of the host."""
    rates, said = measured_rates(0)
    lines.add({"kind": "rates", "card": card, **said})
    return rates


def compare_row(
    entry: SuiteEntry,
    graphs: Sequence[Graph],
    bundle: Bundle,
    *,
    device: Device,
    known: Future[CardRates],
    process: BaselineProcess,
) -> Row:
    """Compare a row's best kernel with its baselines; the card's rates are known by then, or waited for."""
    return figures_of(entry, graphs, bundle, device=device, rates=known.result(), process=process)


def further_seeds(folder: Path | None, operator: str) -> tuple[str, ...]:
    """Read the sources of further seeds of an operator, in the order of their names."""
    return () if folder is None else tuple(path.read_text() for path in sorted((folder / operator).glob("*.py")))


def left_of(entries: Sequence[SuiteEntry], lines: LineLog, *, measured: bool) -> list[SuiteEntry]:
    """Rows that have no figures yet."""
    rows = [row for row in lines.rows if row["kind"] == "row"]
    done = {row["row"] for row in rows if (row.get("reef_us") if measured else row.get("objective"))}
    return [entry for entry in entries if entry.key not in done]


async def search_all(
    options: argparse.Namespace,
    terms: SearchTerms,
    entries: Sequence[SuiteEntry],
    note: RowLog,
    compare: Compare | None = None,
    ahead: CompileAhead | None = None,
) -> None:
    """Search for rows on one card; what was found is compared if there is something that compares."""

    def run(coordinator: Coordinator) -> Awaitable[None]:
        return CardQueue(coordinator, terms, note, compare, ahead=ahead).run(entries)

    await search_queue(options, run)


def chosen(entries: Sequence[SuiteEntry], only: Sequence[str]) -> list[SuiteEntry]:
    """Rows that a regular expression is found in, in the order of the expressions; all rows if there is none."""
    found = {entry.key: entry for each in only or [""] for entry in entries if re.search(each, entry.key)}
    return list(found.values())


async def search_queue(
    options: argparse.Namespace,
    run: Callable[[Coordinator], Awaitable[None]],
    *,
    per_worker: int | None = 3,
    log: str = "workers.log",
) -> None:
    """Run searches on a coordinator of their own, whose log is kept in the output folder under the name `log`.

    `per_worker` is the maximum number of candidates in flight per worker and search; None to derive it.
    """
    with tempfile.TemporaryDirectory() as folder:
        workers = options.workers or max(1, usable_cores() - 2)
        in_flight = None if per_worker is None else per_worker * workers
        settings = Settings(
            data_dir=Path(folder), local_workers=workers, in_flight_per_search=in_flight, log_level="warning"
        )
        configure(settings)
        coordinator = await Coordinator.open(settings)
        try:
            await run(coordinator)
        finally:
            await coordinator.close()
            said = Path(folder) / "workers.log"
            if said.exists():
                (options.out / log).write_text(said.read_text(errors="replace")[-LOG_CHARS:])


def terms_of(options: argparse.Namespace) -> SearchTerms:
    """Read the settings from the command line; later code sees its card alone, as the first one.

    Workers take the first card of a class.

    Raises:
        SystemExit: If there is no such card.
    """
    until = time.monotonic() + 60 * options.minutes
    device = options.device or device_of(options.card)
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=visible_card(options.card))
    emitters = tuple(options.emitters.split(","))
    numbers = (options.evaluations, options.seconds, options.ready_s, options.seed)
    return SearchTerms(device, *numbers, emitters, until, options.whole)


def main() -> None:
    """Search, or say what follows from lines."""
    options = _options()
    if options.lines:
        _conclude(options, options.lines, options.card)
        return
    terms, (first, step) = terms_of(options), options.share
    every = [entry for name in options.suite for entry in suite(name)]
    asked = None if options.baselines is None else tuple(options.baselines)
    found = [
        replace(entry, baselines=asked, further=further_seeds(options.seeds, entry.operator))
        for entry in chosen(every, options.only)
    ]
    entries = found[first::step]
    path = options.out / f"{'-'.join(options.suite)}.jsonl"
    measures = terms.device.measures
    with (
        closing(LineLog(path)) as lines,
        closing(CompileAhead(terms.device.target, options.ahead if measures else 0)) as ahead,
        closing(BaselineProcess(0, ahead.environment if options.ahead else {})) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        compare = None
        if measures:
            process.start()  # Its imports take seconds.
            known = pool.submit(noted_rates, lines, options.card)
            compare = partial(compare_row, device=terms.device, known=known, process=process)
        left = left_of(entries, lines, measured=measures)
        asyncio.run(search_all(options, terms, left, RowLog(lines, terms.device), compare, ahead))
    _conclude(options, [path])


def _conclude(options: argparse.Namespace, paths: Sequence[Path], card: int = 0) -> None:
    """Say what follows from files of lines, suite by suite."""
    for name in options.suite:
        order, figures = [entry.key for entry in suite(name)], FigureRows(options.out, name, card)
        lines = [line for path in paths for line in lines_of(path, figures)]
        mine = [line for line in lines if line["kind"] != "row" or line["row"] in order]
        conclude(mine, order, name, figures, options.out)


def lane_options(options: argparse.ArgumentParser) -> None:
    """Options of whatever searches on one of several cards."""
    options.add_argument("--minutes", type=float, default=60.0, help="for all rows; what is left then is not begun")
    options.add_argument("--seconds", type=float, default=120.0, help="most of one search, once its seed is judged")
    options.add_argument("--ready-s", type=float, default=150.0, help="most until a seed is judged and related")
    options.add_argument("--whole", action="store_true", help="begin no search that would get fewer seconds")
    options.add_argument("--evaluations", type=int, default=3000, help="most of one search")
    options.add_argument("--workers", type=int, help="that trace; all cores but two if not given")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--emitters", default="seed,tune,rewrite,cross", help="names with commas")
    options.add_argument("--card", type=int, default=0)
    options.add_argument(
        "--share", type=share_of, default=(0, 1), help="of the rows: 1/4 is every fourth from the second"
    )
    options.add_argument("--lines", type=Path, nargs="+", help="say what follows from these files, and measure nothing")
    options.add_argument("--device", type=Device.parse, help="instead of the card's, such as model:sm_90")


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suite", choices=SUITES, nargs="+", default=["anchor"])
    options.add_argument(
        "--only", nargs="*", default=[], help="regular expressions: rows alone that one is found in, in their order"
    )
    options.add_argument("--seeds", type=Path, help="a folder of further seeds, a folder per operator in it")
    options.add_argument("--ahead", type=int, default=0, help="processes that compile baselines during a search")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options.add_argument("--baselines", nargs="*", help="that are compared with, beside eager; all if not given")
    lane_options(options)
    return options.parse_args()


if __name__ == "__main__":
    main()
