"""KernelBench's own evaluator over results of the campaign and over published cheats: does it agree with our verdicts?

    python -m benchmarks.kernelbench_evaluator KERNELBENCH --solutions solutions --results kernelbench_campaign.json
    python -m benchmarks.kernelbench_evaluator KERNELBENCH --cheats --out results
    python -m benchmarks.kernelbench_evaluator --ours --device model:sm_90 --out results      # our verdicts on cheats

KERNELBENCH is a checkout of its repository, which is never part of this one. Solutions are modules `ModelNew`, as
`kernelbench_campaign --conclude` writes them: `<contract>/<how>/<operator>.py`, where `how` may also be a model's
kernel, such as `answer-1`. Each is evaluated by `eval_kernel_against_ref` in a process of its own with five correctness
trials and 100 timed calls, as KernelBench's scripts do by default. Inputs are drawn on the card, where a host draws
gigabytes for seconds; weights are drawn on the host. Several evaluations share a card (`--processes`), and one at a
time is timed, with the card alone. Its package imports vendors' clients that evaluation does not use; empty modules
stand for those that are not installed.
Rows: `kernelbench_evaluator.json` (its verdict, ours, its speedup over eager and ours) and `kernelbench_cheats.json`.
A run goes on where an earlier one ended. A solution without a verdict is tried again; one that found too little memory
beside others, or was evaluated when `--minutes` ended, has no row.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.figures import FigureRows, LineLog, Row, device_of, visible_card
from benchmarks.kernelbench_lot import LOT, read_list, row_key
from benchmarks.kernelbench_prepare import BFLOAT16
from benchmarks.record import RESULTS
from service.errors import InvalidInput
from service.evaluation.single import Judge
from service.fleet.kernelbench import KernelbenchImporter, SourceFile
from service.operators.kernelbench import name_of_problem
from workers.errors import lacks_memory
from workers.gpu_lock import GpuLock
from workers.protocol import Device

CHEATS = Path(__file__).parents[1] / "tests" / "workers" / "rogues" / "kernelbench"
AGREEMENT, CHEATING, THEIR_CHEATING = "kernelbench_evaluator", "kernelbench_cheats", "kernelbench_cheats_theirs"
TRIALS, TIMED = 5, 100
"""Correctness trials and timed calls, KernelBench's defaults."""
WALL_S = 180.0
"""Seconds for one evaluation; Triton compiles each kernel once."""
CLIENTS = ("dotenv", "openai", "litellm", "requests", "tqdm", "datasets")
"""Packages that KernelBench's modules import and evaluation does not need."""
ANSWER = "answer"
"""Beginning of a way, such as `answer-1`: one of the kernels that a model wrote."""
NOT_ADMITTED = "not_admitted"
"""Our verdict on a problem that is no task: mutation testing refuses the operator."""
_FIELD = re.compile(r"^(problem|published|kernelbench|ours): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class PublishedCheat:
    """A published cheat against KernelBench or KernelBot, made again.

    Attributes:
        name: Name of its file.
        source: Its text, a module `ModelNew`.
        problem: Text of the problem that it pretends to solve.
        problem_name: Name of that problem's file.
        published: Who published it.
        kernelbench: What KernelBench's evaluator says of it by its source.
        ours: Verdicts of ours, any of which will do.
    """

    name: str
    source: str
    problem: str
    problem_name: str
    published: str
    kernelbench: str
    ours: frozenset[str]


def load_cheats() -> list[PublishedCheat]:
    """Read all cheats."""
    return [_cheat(path) for path in sorted(CHEATS.glob("*.py"))]


def _cheat(path: Path) -> PublishedCheat:
    source = path.read_text()
    said = dict(_FIELD.findall(source))
    problem = (CHEATS / "problems" / f"{said['problem']}.py").read_text()
    ours = frozenset(said["ours"].split(", "))
    return PublishedCheat(path.stem, source, problem, said["problem"], said["published"], said["kernelbench"], ours)


async def our_verdict(cheat: PublishedCheat, device: Device) -> tuple[str, str]:
    """Import the cheat's problem, and judge the cheat; return outcome and reason."""
    async with KernelbenchImporter(target=device.target) as importer:
        imported = await importer.operator(SourceFile(cheat.problem, cheat.problem_name))
    async with Judge(imported.operator, device) as judge:
        try:
            found = await judge.judge(cheat.source)
        except InvalidInput as error:
            return NOT_ADMITTED, error.detail
    return found.outcome.value, found.reason


def judge_cheats(device: Device, figures: FigureRows) -> None:
    """Judge all cheats, and write a row for each."""
    for cheat in load_cheats():
        outcome, reason = asyncio.run(our_verdict(cheat, device))
        row = {"cheat": cheat.name, "problem": cheat.problem_name, "published": cheat.published, "outcome": outcome}
        told = {
            "reason": reason[:300],
            "as_expected": outcome in cheat.ours,
            "kernelbench_by_source": cheat.kernelbench,
        }
        figures.add({**row, **told, "device": device.name}, f"{cheat.name}: {outcome} {reason[:80]}")


def evaluator_of(checkout: Path) -> Any:
    """Import KernelBench's `kernelbench.eval` from a checkout."""
    for name in CLIENTS:
        if find_spec(name) is None:
            sys.modules[name] = _Stand(name)
    sys.path.insert(0, str(checkout / "src"))
    return import_module("kernelbench.eval")


class _Stand(types.ModuleType):
    """Empty module in place of a client that is not installed; any name in it is a class."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def share_card(theirs: Any, lock: GpuLock, device: Any) -> None:
    """Have evaluations share a card: inputs are drawn on it, and an evaluation that is timed has it alone.

    Args:
        theirs: KernelBench's module, whose functions are replaced.
        lock: Lock of the card, which the caller holds shared.
        device: The card, a `torch.device`.
    """
    load, choose = theirs.load_original_model_and_inputs, theirs.timing.get_timing_function

    def loaded(*given: object) -> tuple[object, object, object]:
        model, initial, inputs = load(*given)
        return model, initial, _within(lambda: device, inputs)

    theirs.load_original_model_and_inputs = loaded
    theirs.timing.get_timing_function = lambda *given: _within(lock.exclusive, choose(*given))


def _within(turn: Callable[[], AbstractContextManager[object]], work: Callable[..., object]) -> Callable[..., object]:
    @wraps(work)
    def within(*given: object, **options: object) -> object:
        with turn():
            return work(*given, **options)

    return within


def _evaluate(link: Connection, checkout: Path, problem: str, solution: str, place: tuple[bool, str]) -> None:
    """Evaluate one solution; runs in a process of its own. `place`: True to cast to bfloat16, and the card."""
    narrow, card = place
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=card)
    torch = import_module("torch")
    theirs = evaluator_of(checkout)
    with closing(GpuLock(f"kernelbench-{card}")) as lock, lock.shared():
        device = torch.device("cuda:0")
        share_card(theirs, lock, device)
        found = theirs.eval_kernel_against_ref(
            problem,
            solution,
            num_correct_trials=TRIALS,
            num_perf_trials=TIMED,
            measure_performance=True,
            device=device,
            backend="triton",
            precision=torch.bfloat16 if narrow else torch.float32,
        )
    link.send(None if found is None else told_of(found.model_dump()))


def told_of(found: Mapping[str, Any]) -> Row:
    """Return what their verdict says, as a row; times in microseconds."""
    metadata = {name: str(value)[:300] for name, value in found["metadata"].items()}
    mine, reference = (1e3 * found[name] if found[name] > 0 else None for name in ("runtime", "ref_runtime"))
    return {
        "compiled": found["compiled"],
        "correct": found["correctness"],
        "their_us": mine,
        "their_eager_us": reference,
        "their_speedup": reference / mine if mine and reference else None,
        "excessive_speedup": bool(found["metadata"].get("excessive_speedup")),
        "metadata": metadata,
    }


def in_a_process(
    checkout: Path, problem: str, solution: str, *, narrow: bool, card: str = "0", wall_s: float = WALL_S
) -> Row:
    """Evaluate one solution; a row that says so if the evaluator died or gave no answer."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_evaluate, args=(theirs, checkout, problem, solution, (narrow, card)))
    process.start()
    theirs.close()
    try:
        said = ours.recv() if ours.poll(wall_s) else f"no answer in {wall_s:.0f} s"
    except EOFError:
        said = "its process died"
    process.kill()
    process.join()
    nothing = {"compiled": None, "correct": None, "metadata": {"failed": said or "it asks for another try"}}
    return said if isinstance(said, dict) else nothing


def solutions_of(folder: Path, problems: Sequence[str]) -> Iterator[tuple[str, str, str, Path]]:
    """List problem, contract, way and file of every solution; a model's kernels that were not the best come last."""
    names = {name_of_problem(Path(key)): key for key in problems}
    for path in sorted(folder.glob("*/*/*.py"), key=lambda path: (path.parts[-2].startswith(ANSWER), path)):
        contract, how = path.parts[-3:-1]
        if path.stem in names:
            yield names[path.stem], contract, how, path


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that is due.

    Attributes:
        head: What its row says besides the result.
        problem: Text of the problem.
        solution: Text of the solution.
        narrow: True to cast module and inputs to bfloat16.
    """

    head: Row
    problem: str
    solution: str
    narrow: bool = False


def evaluated(options: argparse.Namespace, due: Sequence[Evaluation]) -> Iterator[Row]:
    """Evaluate as long as there is time, several at once; rows as soon as they are known.

    What found too little memory beside others, or has no verdict at the end of the time, has no row.
    """
    until = time.monotonic() + 60 * options.minutes
    cards = [visible_card(int(card)) for card in options.cards.split(",")]

    def evaluate(number: int, one: Evaluation) -> Row | None:
        left_s = until - time.monotonic()
        if left_s <= 0.0:
            return None
        place = {"card": cards[number % len(cards)], "wall_s": min(WALL_S, left_s)}
        row = in_a_process(options.checkout, one.problem, one.solution, narrow=one.narrow, **place)
        return None if row["correct"] is None and time.monotonic() >= until else one.head | row

    with ThreadPoolExecutor(options.processes * len(cards)) as pool:
        for task in as_completed([pool.submit(evaluate, *each) for each in enumerate(due)]):
            row = task.result()
            if row is not None and not lacks_memory(json.dumps(row["metadata"])):
                yield row


def evaluate_solutions(options: argparse.Namespace, results: Mapping[str, Row]) -> None:
    """Evaluate the solutions that have no line yet, and write what agrees."""
    keys = [each.key for each in read_list(options.list)[1]]
    with closing(LineLog(options.out / f"{AGREEMENT}.jsonl")) as lines:
        known, due = {row["row"] for row in lines.rows if row["correct"] is not None}, list[Evaluation]()
        for problem, contract, how, path in solutions_of(options.solutions, keys):
            head = {"row": row_key(problem, contract, how), "problem": problem, "contract": contract, "how": how}
            text = (options.checkout / "KernelBench" / problem).read_text()
            if head["row"] not in known:
                due.append(Evaluation(head, text, path.read_text(), contract == BFLOAT16))
        # Those of gigabytes come last: they may lack memory beside others.
        moved = {row["problem"]: row.get("moved_bytes") or 0 for row in results.values() if "problem" in row}
        for row in evaluated(options, sorted(due, key=lambda each: moved.get(each.head["problem"], 0))):
            lines.add(row)
            print(row["row"], row["correct"], row.get("their_speedup"), flush=True)
        latest = {row["row"]: row for row in lines.rows}
    rows = [compared(row, results.get(key, {})) for key, row in latest.items()]
    figures = FigureRows(options.out, AGREEMENT, options.card)
    figures.rows[:] = rows
    figures.conclude(summary=agreement(rows), commit=read_list(options.list)[0])
    print(json.dumps(agreement(rows)))


def our_results(rows: Sequence[Row]) -> dict[str, Row]:
    """Return our rows by the keys of solutions: those of the campaign, and the verdicts on a model's kernels."""
    found = {row_key(row["problem"], row["contract"], row["how"]): row for row in rows}
    for row in rows:
        for answer in row.get("answered") or ():
            found[row_key(row["problem"], row["contract"], f"{ANSWER}-{answer['number']}")] = answer
    return found


def compared(theirs: Row, ours: Row) -> Row:
    """Put our row beside theirs."""
    row = {name: value for name, value in theirs.items() if name != "session"}
    row["our_outcome"], row["our_us"], row["our_eager_us"] = (
        ours.get(name) for name in ("outcome", "reef_us", "eager_us")
    )
    ratio = ours.get("speedup", {}).get("eager")
    row["our_speedup"] = ratio["mid"] if ratio else None
    are_timed = row["our_speedup"] and row.get("their_speedup")
    row["speedup_ratio"] = row["their_speedup"] / row["our_speedup"] if are_timed else None
    are_judged = None not in (row["correct"], row["our_outcome"])
    row["agrees"] = row["correct"] == (row["our_outcome"] == "correct") if are_judged else None
    return row


def agreement(rows: Sequence[Row]) -> Row:
    """Count agreements; the spread of the ratios of speedups, theirs over ours."""
    judged = [row for row in rows if row["agrees"] is not None]
    ratios = sorted(row["speedup_ratio"] for row in rows if row["speedup_ratio"])
    quartiles = [ratios[int(share * (len(ratios) - 1))] for share in (0.0, 0.25, 0.5, 0.75, 1.0)] if ratios else None
    return {
        "solutions": len(rows),
        "judged": len(judged),
        "agree": sum(row["agrees"] for row in judged),
        "disagree": [row["row"] for row in judged if not row["agrees"]],
        "failed": {row["row"]: row["metadata"] for row in rows if row["agrees"] is None},
        "same_side_of_1": sum(
            (row["their_speedup"] > 1) == (row["our_speedup"] > 1) for row in rows if row["speedup_ratio"]
        ),
        "timed": len(ratios),
        "speedup_ratio_quartiles": quartiles,
    }


def evaluate_cheats(options: argparse.Namespace) -> None:
    """Evaluate all cheats by KernelBench, and write what it says."""
    figures = FigureRows(options.out, THEIR_CHEATING, options.card)
    due = [
        Evaluation(
            {"cheat": cheat.name, "problem": cheat.problem_name, "by_source": cheat.kernelbench},
            cheat.problem,
            cheat.source,
        )
        for cheat in load_cheats()
    ]
    for row in evaluated(options, due):
        figures.add(row, f"{row['cheat']}: correct {row['correct']}, speedup {row.get('their_speedup')}")


def main() -> None:
    """Evaluate solutions or cheats by KernelBench, or judge the cheats ourselves."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("checkout", type=Path, nargs="?", help="a checkout of KernelBench")
    options.add_argument("--solutions", type=Path, help="a folder of modules ModelNew")
    options.add_argument("--results", type=Path, help="kernelbench_campaign.json, for our verdicts and times")
    options.add_argument("--cheats", action="store_true", help="evaluate the published cheats")
    options.add_argument("--ours", action="store_true", help="judge the published cheats by Kernelreef")
    options.add_argument("--list", type=Path, default=LOT, help="list of problems")
    options.add_argument("--device", type=Device.parse, help="for --ours, instead of the card's")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--cards", default="0", help="numbers of cards that evaluate solutions, with commas")
    options.add_argument("--processes", type=int, default=1, help="evaluations at the same time, per card")
    options.add_argument("--minutes", type=float, default=600.0, help="no evaluation goes on longer")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    chosen = options.parse_args()
    if chosen.ours:
        judge_cheats(chosen.device or device_of(chosen.card), FigureRows(chosen.out, CHEATING, chosen.card))
    elif chosen.cheats:
        evaluate_cheats(chosen)
    else:
        rows = json.loads(chosen.results.read_text())["rows"] if chosen.results else []
        evaluate_solutions(chosen, our_results(rows))


if __name__ == "__main__":
    main()
