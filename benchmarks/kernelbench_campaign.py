"""The KernelBench campaign: a queue of problems, searched for on cards, in any number of sittings.

    python -m benchmarks.kernelbench_campaign --folder prepared --out lines --minutes 8 --cards 0,1
    python -m benchmarks.kernelbench_campaign --folder prepared --out lines --how model
    python -m benchmarks.kernelbench_campaign --folder prepared --lines lines --conclude results

`kernelbench_prepare` makes `--folder` on any machine. Each card works through the queue by itself: it claims
problems, `--beside` of which get ready at the same time, and searches `--together` of them at the same time, for
`--seconds` of the card each. A search whose lead is `--stale-s` old ends. After a round the best kernel, eager PyTorch,
torch.compile and max-autotune are timed as cold CUDA graphs interleaved in one process (`kernelbench_queue`), of
`--comparing` processes that share `--quiet` cores of their own. `--baselines compile` leaves max-autotune out.
Baselines' kernels are compiled ahead during the searches, in `--ahead` processes with a low priority and without the
card (`inductor_compiler`). A row is a line of a file of `--out` as soon as it is known. Rows of former sittings are
found in all `*.jsonl` of `--known` and `--out`, and in results that are among `--known`; what has figures is not
searched again, unless a model has written more kernels for it since, and what failed is tried `TRIES` times. A problem
that would not fit into the time that is left is not begun, one that is not ready by its end has no row, and a
comparison that goes on then is ended without figures.

`--how rules` covers all problems of the contract that were prepared, `--how model` those of the lot. A model's kernels
come from a recording (`kernelbench_answers`): they are seeds, before those that were prepared.

`--conclude` writes `kernelbench_campaign.json` and its plot, the solutions as modules `ModelNew` (which hold the
problems' texts, and are never committed), and the tables of `docs/results/kernelbench.md`. `--device model:sm_90` tries
the script out where there is no card: nothing is timed.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from threading import Timer

from benchmarks import kernelbench_report
from benchmarks.baseline_comparison import figures_of
from benchmarks.compile_ahead import CompileAhead
from benchmarks.figures import LineLog, Row, device_of, read_folder, read_lines, visible_card
from benchmarks.kernelbench_answers import RECORDING, recorded_kernels
from benchmarks.kernelbench_lot import DRAWN, LOT, read_list
from benchmarks.kernelbench_prepare import BASELINES, CONTRACTS, DEFAULT, PREPARED
from benchmarks.kernelbench_queue import (
    MODEL,
    RULES,
    TIME,
    CampaignEntry,
    CampaignQueue,
    CampaignTerms,
    ClaimedEntries,
    timed_reference,
)
from benchmarks.kernelbench_report import NOT_REACHED, as_line
from benchmarks.record import versions
from benchmarks.searches import RowLog, noted_rates, search_queue, spent
from benchmarks.suites import CardRates, SuiteEntry
from service.coordinator import Coordinator
from service.operators.catalogue import load_operator
from workers.baselines import BaselineProcess, BaselinesFailed
from workers.floors import floor_flops
from workers.protocol import Bundle, Device, Graph, Operator

WAYS = (RULES, MODEL)
_RECURRENT = re.compile(r"\bnn\.(LSTM|GRU|RNN)\(")
HALF_WIDTH = 0.005
"""Relative half-width of all ratios at which a comparison ends before its 40 rounds, after ten at the earliest."""
TRIES = 2
"""Sittings in which a problem without figures is tried."""
TF32_SHARE, STRICT_SHARE = 1 / 2, 1 / 6
"""Rates of float32 products over those of bfloat16 on matrix units: TF32 has half the rate, and a product that keeps
float32's precision takes three of TF32."""


def compare_problem(
    entry: SuiteEntry,
    graphs: Sequence[Graph],
    bundle: Bundle,
    *,
    device: Device,
    known: Future[CardRates],
    processes: SimpleQueue[BaselineProcess],
    until: float,
) -> Row:
    """Compare a problem's best kernel with its baselines; the floor counts the products that the reference makes.

    One of the idle processes times them. It is killed at `until`, by the monotonic clock: a baseline may tune for
    minutes.

    Raises:
        BaselinesFailed: If they could not be measured by then.
    """
    operator, graph = timed_reference(entry, graphs)
    counted = replace(entry, flops=needed_flops(operator, graph))
    rates = known.result()
    rates = CardRates(rates.bytes_per_s, rates.flops_per_s * matrix_share(operator))
    process = processes.get()
    left_s = until - time.monotonic()
    overdue = Timer(left_s, process.interrupt)
    try:
        if left_s <= 0.0:
            raise BaselinesFailed("the sitting ended before the comparison")
        overdue.start()
        return figures_of(counted, graphs, bundle, device=device, rates=rates, process=process, half_width=HALF_WIDTH)
    finally:
        overdue.cancel()
        processes.put(process)


def needed_flops(operator: Operator, graph: Graph) -> float:
    """Return the operations that the floor counts: products that every kernel needs, and direct convolutions."""
    convolves = any("convolution" in node.op for node in graph.nodes)
    return floor_flops(operator, graph) or ((graph.matrix_flops or 0.0) if convolves else 0.0)


def matrix_share(operator: Operator) -> float:
    """Return the rate of an operator's products over that of bfloat16."""
    if all(item.dtype != "float32" for item in operator.inputs):
        return 1.0
    return TF32_SHARE if operator.precision.allow_tf32 else STRICT_SHARE


def entries_of(options: argparse.Namespace, known: Sequence[Row]) -> list[CampaignEntry]:
    """List the problems that are left, levels in turn.

    Those with fewer tries are first, of them those without recurrent layers, and of them the lot.
    """
    listed = read_list(options.list)[1]
    places, drawn = (
        {each.key: number for number, each in enumerate(listed)},
        {each.key for each in listed if each.drawn},
    )
    answers = recorded_kernels(options.answers, options.contract) if options.how == MODEL else {}
    levels: dict[str, list[CampaignEntry]] = {}
    prepared = sorted(read_lines(options.folder / PREPARED), key=lambda row: places.get(row["problem"], len(places)))
    for row in prepared:
        wanted = row["contract"] == options.contract and (options.how == RULES or row["problem"] in drawn)
        if not wanted or row["problem"].partition("/")[0] not in options.levels or not row["seeds"] or row["reason"]:
            continue
        home = options.folder / options.contract / row["operator"]
        dims = load_operator(home).shapes[0].dims
        found = answers.get(row["operator"], ())
        if options.how == MODEL and not found:
            continue
        told = {"problem": row["problem"], "column": options.contract, "how": options.how, "answers": found}
        asked = None if options.baselines is None else tuple(options.baselines)
        entry = CampaignEntry(row["operator"], dims, home=home, baselines=asked, **told)
        levels.setdefault(row["problem"].partition("/")[0], []).append(entry)
    entries = [entry for turn in zip_longest(*levels.values()) for entry in turn if entry is not None]
    tries = tries_of(known, timed=options.device is None or options.device.measures)
    had = answered_of(known)
    tries |= {each.key: 0 for each in entries if len(each.answers) > had.get(each.key, len(each.answers))}
    left = (each for each in entries if tries.get(each.key, 0) < TRIES)
    return sorted(left, key=lambda each: (tries.get(each.key, 0), _is_recurrent(each), each.problem not in drawn))


def _is_recurrent(entry: CampaignEntry) -> bool:
    """Return True for layers that torch.compile compiles for a minute, in which no other problem has the card."""
    assert entry.home is not None
    return _RECURRENT.search((entry.home / "reference.py").read_text()) is not None


def answered_of(known: Iterable[Row]) -> dict[str, int]:
    """Return how many of a model's kernels each row was searched with at most."""
    found: dict[str, int] = {}
    for row in (row for row in known if row["kind"] == "row" and row.get("answered") is not None):
        found[row["row"]] = max(len(row["answered"]), found.get(row["row"], 0))
    return found


def tries_of(known: Iterable[Row], *, timed: bool) -> dict[str, int]:
    """Count the sittings in which each row was tried, `TRIES` where it has its figures."""
    sittings: dict[str, set[float]] = {}
    done: dict[str, int] = {}
    for row in (row for row in known if row["kind"] == "row"):
        sittings.setdefault(row["row"], set()).add(row["session"])
        if row.get("ended") != TIME and (row.get("reef_us") if timed else row.get("objective")):
            done[row["row"]] = TRIES
    return {key: len(each) for key, each in sittings.items()} | done


def lines_of(places: Iterable[Path]) -> Iterator[Row]:
    """Read the lines of all sittings in folders, and rows of results that a sitting has come to as such lines."""
    for path in places:
        if path.is_dir():
            yield from read_folder(path)
        else:
            rows = json.loads(path.read_text())["rows"]
            yield from (as_line(row) for row in rows if row["outcome"] != NOT_REACHED)


def share_of_cores(number: int, lanes: int) -> list[int]:
    """Return the cores of one of several lanes. They are neighbours: threads of one core belong to one lane."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[len(cores) * number // lanes : len(cores) * (number + 1) // lanes]


def work(options: argparse.Namespace, number: int, cards: Sequence[int]) -> None:
    """Work through the queue on one card, with an even share of the cores."""
    cores = share_of_cores(number, len(cards))
    quiet, others = cores[: options.quiet], cores[options.quiet :]
    device = options.device or device_of(cards[number])  # Before the others are hidden.
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=visible_card(cards[number]))
    emitters = tuple(options.emitters.split(","))
    terms = CampaignTerms(
        device,
        options.evaluations,
        options.seconds,
        options.ready_s,
        options.seed,
        emitters,
        options.until,
        beside=options.beside,
        together=options.together,
        comparing=options.comparing,
        stale_s=options.stale_s,
    )
    known = list(lines_of({*options.known, options.out}))
    claims = ClaimedEntries(entries_of(options, known), options.claims)
    os.sched_setaffinity(0, cores)
    with (
        closing(LineLog(options.out / f"{options.sitting}-{number}.jsonl")) as lines,
        # It has all cores: those of the comparisons are idle meanwhile, and it stops while one is made.
        closing(CompileAhead(device.target, options.ahead if device.measures else 0)) as ahead,
        ThreadPoolExecutor(1) as pool,
        ExitStack() as stack,
    ):
        compare = None
        processes = SimpleQueue[BaselineProcess]()
        lines.add({"kind": "sitting", "card": cards[number], "device": device.name, "versions": versions()})
        if device.measures:
            os.sched_setaffinity(0, quiet or cores)  # Processes inherit it.
            for turn in range(1, 1 + options.comparing):
                process = stack.enter_context(closing(BaselineProcess(0, ahead.environment, turn)))
                process.start(device.target)
                processes.put(process)
            rates = pool.submit(noted_rates, lines, cards[number])  # While the workers start.
            compare = partial(compare_problem, device=device, known=rates, processes=processes, until=options.until)

        os.sched_setaffinity(0, others or cores)

        async def search(coordinator: Coordinator) -> None:
            queue = CampaignQueue(coordinator, terms, RowLog(lines, device), compare, claims, ahead=ahead)
            await queue.run_all()
            lines.add({"kind": "spent", "card": cards[number], "seconds": spent()})

        asyncio.run(search_queue(options, search, per_worker=None, log=f"{options.sitting}-{number}.log"))


def main() -> None:
    """Search on every card, or conclude."""
    options = _options()
    if options.conclude:
        prepared = read_lines(options.folder / PREPARED)
        told = kernelbench_report.conclude(list(lines_of([options.lines])), prepared, options)
        print(json.dumps(told["counts"]))
        return
    cards = [int(card) for card in options.cards.split(",")]
    with tempfile.TemporaryDirectory() as claims:
        options.claims = options.claims or Path(claims)
        fork = get_context("fork")  # What is imported is not imported again.
        lanes = [fork.Process(target=work, args=(options, number, cards)) for number in range(len(cards))]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    sys.exit(any(lane.exitcode for lane in lanes))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, required=True, help="operators that were prepared")
    options.add_argument("--out", type=Path, default=Path("lines"), help="folder for lines of this sitting")
    options.add_argument(
        "--known", type=Path, nargs="*", default=(), help="folders with lines of former sittings, or files of results"
    )
    options.add_argument("--list", type=Path, default=LOT, help="list of problems, with the lot")
    options.add_argument("--contract", choices=CONTRACTS, default=DEFAULT)
    options.add_argument("--levels", nargs="+", default=list(DRAWN), help="problems of these levels alone")
    options.add_argument("--how", choices=WAYS, default=RULES)
    options.add_argument("--answers", type=Path, default=RECORDING, help="recording of kernels that a model wrote")
    options.add_argument("--cards", default="0", help="numbers of cards, with commas")
    options.add_argument("--minutes", type=float, default=8.0, help="for this sitting")
    options.add_argument(
        "--seconds", type=float, default=30.0, help="of the card for each search, once a seed is judged"
    )
    options.add_argument("--stale-s", type=float, default=10.0, help="of the card without another lead, which end it")
    options.add_argument("--ready-s", type=float, default=150.0, help="most until its seeds are judged")
    options.add_argument("--evaluations", type=int, default=3000, help="most of one search")
    options.add_argument("--workers", type=int, help="that trace; all cores but two if not given")
    options.add_argument("--ahead", type=int, default=4, help="processes that compile baselines ahead, per card")
    options.add_argument(
        "--baselines",
        nargs="*",
        choices=BASELINES,
        help="to compare with, beside eager PyTorch; all if not given. max_autotune takes most of a comparison",
    )
    options.add_argument("--quiet", type=int, default=0, help="cores for the comparisons alone, per card")
    options.add_argument("--beside", type=int, default=2, help="problems that get ready at the same time, per card")
    options.add_argument("--together", type=int, default=3, help="searches at the same time, per card")
    options.add_argument("--comparing", type=int, default=1, help="comparisons at the same time, per card")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--emitters", default="tune,rewrite,cross", help="names with commas; drafts are seeds already")
    options.add_argument("--device", type=Device.parse, help="instead of the card's, such as model:sm_90")
    options.add_argument("--conclude", type=Path, help="write results to this folder, and search for nothing")
    options.add_argument("--lines", type=Path, default=Path("lines"), help="folder of all lines, for --conclude")
    options.add_argument("--page", type=Path, help="page whose tables are filled, for --conclude")
    options.add_argument("--solutions", type=Path, help="folder for modules ModelNew, for --conclude")
    options.add_argument(
        "--claims", type=Path, help="a new folder that several such commands share, so that none repeats a problem"
    )
    chosen = options.parse_args()
    chosen.sitting, chosen.until = f"{int(time.time())}-{os.getpid()}", time.monotonic() + 60 * chosen.minutes
    return chosen


if __name__ == "__main__":
    main()
