"""KernelBench's defective problems: published checks that a kernel passes without computing, found before any search.

    python -m benchmarks.kernelbench_defects PATH --commit COMMIT --out results

PATH is the folder with `level1`, `level2`, `level3` of a checkout of KernelBench. Each problem's module runs on the CPU
as KernelBench runs it: its own inputs, seeds, mode and tolerances. If the published sizes are too large for this
machine, the leading extent of the first input is halved until they are not, and then the extents of its maps (those
after the second). Extents of rows and channels stay, as sums and means depend on them.
A row per problem names what would pass: `zeros`, `one number`, `the input`, `an old answer` (for other inputs),
`one row` (repeated), `other weights`. `random`, `not finite` and `several results` are checks that no kernel passes
reliably. Parameters that are all ones or zeros, as those of norms, are counted: a kernel may leave them out, and that
alone is no defect. `--out` goes on where it ended.
"""

import argparse
import ast
import json
import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.figures import LineLog, Row
from benchmarks.kernelbench_lot import key_of
from benchmarks.record import RESULTS, write
from service.cli.import_ import problem_files

NAME = "kernelbench_defects"
TOLERANCES = {"float32": 1e-4, "bfloat16 and before 2025": 1e-2}
"""Absolute and relative tolerances of KernelBench's evaluator, `get_tolerance_for_precision` in its `eval.py`; versions
0 and 0.1 took the second for float32, too."""
FOOLED = ("zeros", "one number", "the input", "an old answer", "one row", "other weights")
"""Wrong answers that are tried."""
UNRELIABLE = ("random", "not finite", "several results")
"""Properties of problems whose check no kernel passes reliably."""
MOST_ELEMENTS, MOST_FLOPS = 2**22, 4e9
"""Largest tensor and operations of one call; a shared core takes seconds for it."""
MEMORY_BYTES, WALL_S = 24 * 2**30, 600.0
"""Limits of the process that runs one problem."""
SEEDS = (42, 43, 44)
"""Seeds of inputs; KernelBench's first is 42."""


class _Largest(TorchDispatchMode):
    """Mode that remembers the largest tensor of all results; views, such as a transposed weight, take no memory."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = not any(item.alias_info for item in func._schema.returns)
        for each in result if isinstance(result, tuple | list) else (result,):
            if made and isinstance(each, torch.Tensor):
                self.elements = max(self.elements, each.numel())
        return result


@dataclass(frozen=True)
class ProblemCost:
    """Largest tensor and matrix operations of one call, and extents to halve: the first, then those of maps."""

    elements: int
    flops: float
    extents: tuple[int, ...]


def names_of(source: str) -> dict[str, int]:
    """Return the module's whole numbers by their names."""
    found = {}
    for item in ast.parse(source).body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_number(value):
                found[name] = eval(compile(ast.Expression(value), "problem", "eval"))
    return found


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _is_number(left) and _is_number(right)
        case ast.Constant(value=int(number)):
            return not isinstance(number, bool)
    return False


def resized(source: str, name: str, size: int) -> str:
    """Return the problem with another size."""
    lines = source.splitlines(keepends=True)
    for item in ast.parse(source).body:
        match item:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name and value.end_col_offset:
                row, (begin, end) = value.lineno - 1, (value.col_offset, value.end_col_offset)
                lines[row] = f"{lines[row][:begin]}{size}{lines[row][end:]}"
    return "".join(lines)


def cost_of(source: str) -> ProblemCost:
    """Compute what a call takes, on tensors without data."""
    with torch.device("meta"), torch.no_grad():
        space: dict[str, Any] = {"__name__": "problem"}
        exec(compile(source, "problem", "exec"), space)
        module, inputs = space["Model"](*space["get_init_inputs"]()), space["get_inputs"]()
        given = [each for each in inputs if isinstance(each, torch.Tensor)]
        with _Largest() as largest, FlopCounterMode(display=False) as flops:
            module(*inputs)
    elements = max([largest.elements, *(each.numel() for each in given)])
    shape = given[0].shape
    return ProblemCost(elements, float(flops.get_total_flops()), (*shape[:1], *sorted(shape[2:], reverse=True)))


def fitted(source: str) -> tuple[str, Row]:
    """Return the problem at sizes that fit this machine, and a note of what was changed."""
    cost, changed = cost_of(source), {}
    while cost.elements > MOST_ELEMENTS or cost.flops > MOST_FLOPS:
        numbers = names_of(source)
        name = next((name for extent in cost.extents for name, size in numbers.items() if size == extent > 1), None)
        if name is None:
            break
        smaller = resized(source, name, numbers[name] // 2)
        try:
            cost = cost_of(smaller)
        except (RuntimeError, ValueError):  # The module needs this size.
            break
        source, changed[name] = smaller, numbers[name] // 2
    return source, {"changed": changed, "elements": cost.elements, "flops": cost.flops}


class ProblemTrial:
    """One problem on the CPU, with its own inputs and weights."""

    def __init__(self, source: str) -> None:
        self._space: dict[str, Any] = {"__name__": "problem"}
        exec(compile(source, "problem", "exec"), self._space)

    def module(self, seed: int) -> torch.nn.Module:
        """Make the module with the weights of a seed, in the mode in which KernelBench leaves it."""
        torch.manual_seed(seed)
        made: torch.nn.Module = self._space["Model"](*self._space["get_init_inputs"]())
        return made

    def inputs(self, seed: int) -> list[Any]:
        """Draw the arguments of a seed, floats in float32 as KernelBench casts them."""
        torch.manual_seed(seed)
        return [each.float() if isinstance(each, torch.Tensor) else each for each in self._space["get_inputs"]()]


def wrong_answers(
    trial: ProblemTrial, result: torch.Tensor, inputs: Sequence[Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """List what kernels without the computation would return."""
    module = trial.module(SEEDS[0])
    old = module(*trial.inputs(SEEDS[1]))
    yield "zeros", torch.zeros_like(result)
    yield "one number", torch.full_like(result, float(old.double().mean()))
    for each in inputs:
        if isinstance(each, torch.Tensor) and each.shape == result.shape:
            yield "the input", each
    yield "an old answer", old
    if result.ndim > 1 and result.shape[0] > 1:
        yield "one row", result[:1].expand_as(result)
    other = trial.module(SEEDS[2])
    if any(not torch.equal(mine, its) for mine, its in zip(module.parameters(), other.parameters(), strict=True)):
        yield "other weights", other(*inputs)


def examine(source: str) -> Row:
    """Return what would pass the published check of a problem, at each tolerance."""
    text, told = fitted(source)
    trial = ProblemTrial(text)
    with torch.no_grad():
        inputs = trial.inputs(SEEDS[0])
        result = trial.module(SEEDS[0])(*inputs)
        if not isinstance(result, torch.Tensor):
            return {
                **told,
                "passes": {},
                "unreliable": ["several results"],
                "reason": f"it returns {type(result).__name__}",
            }
        unreliable = [] if bool(result.isfinite().all()) else ["not finite"]
        torch.manual_seed(SEEDS[2])
        if not torch.equal(trial.module(SEEDS[0])(*trial.inputs(SEEDS[0])), result) and "not finite" not in unreliable:
            unreliable.append("random")
        passes: dict[str, list[str]] = {name: [] for name in TOLERANCES}
        for way, answer in wrong_answers(trial, result, inputs):
            for name, tolerance in TOLERANCES.items():
                if way not in passes[name] and torch.allclose(result, answer, atol=tolerance, rtol=tolerance):
                    passes[name].append(way)
    told["constant_parameters"] = sum(bool((each == each.flatten()[0]).all()) for each in trial.module(0).parameters())
    told["largest"], told["deviation"] = float(result.abs().max()), float(result.double().std())
    return {**told, "passes": passes, "unreliable": unreliable, "reason": ""}


def _work(link: Connection, source: str) -> None:
    """Examine one problem, within the limits of its process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    torch.set_num_threads(1)
    try:
        link.send(examine(source))
    except Exception as error:  # noqa: BLE001 a problem may fail in any way, and its row says how
        link.send({"passes": {}, "unreliable": [], "reason": f"not examined: {type(error).__name__}: {error}"[:300]})


def in_a_process(source: str, wall_s: float = WALL_S) -> Row:
    """Examine one problem in a process of its own."""
    context = get_context("fork")  # This process has not computed anything yet, and torch is loaded.
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, source))
    process.start()
    theirs.close()
    try:
        found: Row = ours.recv() if ours.poll(wall_s) else {"reason": f"not examined: no answer in {wall_s:g} s"}
    except EOFError:
        found = {"reason": "not examined: its process died"}
    process.kill()
    process.join()
    return {"passes": {}, "unreliable": [], **found}


def finished(folder: Path) -> list[Row]:
    """Read the rows of an earlier run's results."""
    path = folder / f"{NAME}.json"
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def is_defective(row: Row) -> bool:
    """Return True if a problem is not in the second denominator: its float32 check proves nothing, or fails all."""
    return bool(row["passes"].get("float32") or row["unreliable"])


def summary(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Count problems, defective ones and ways, by level."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        count = counts.setdefault(str(row["problem"]).partition("/")[0], {})
        ways = [f"{name}: {way}" for name, found in row["passes"].items() for way in found]
        counted = ["problems", *(["defective"] if is_defective(dict(row)) else []), *ways, *row["unreliable"]]
        for name in [*counted, *(["not examined"] if row["reason"].startswith("not examined") else [])]:
            count[name] = count.get(name, 0) + 1
    return counts


def main() -> None:
    """Examine all problems that have no row yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the folder with level1, level2, …")
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--only", default="", help="a regular expression: these problems alone")
    parser.add_argument("--commit", default="", help="that of the checkout, to be noted")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options = parser.parse_args()
    problems = [file for level in options.levels.split(",") for file in problem_files(options.path / f"level{level}")]
    with closing(LineLog(options.out / f"{NAME}.jsonl")) as lines:
        rows = {row["problem"]: row for row in (*finished(options.out), *lines.rows)}
        for path in problems:
            if key_of(path) not in rows and re.search(options.only, key_of(path)):
                rows[key_of(path)] = row = {"problem": key_of(path), **in_a_process(path.read_text())}
                lines.add(row)
                print(key_of(path), row["passes"].get("float32"), row["unreliable"], row["reason"], flush=True)
    order = [row for path in problems if (row := rows.get(key_of(path)))]
    told = [{name: value for name, value in row.items() if name != "session"} for row in order]
    print(write(NAME, told, options.out, commit=options.commit, summary=summary(told)))


if __name__ == "__main__":
    main()
