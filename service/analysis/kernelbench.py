"""Results of searches for KernelBench's problems: kernels in its form, and its measure fast_p.

fast_p is the share of problems with a correct kernel that is more than p times as fast as the baseline.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from service.errors import InvalidInput
from service.operators.kernelbench import parts_of_reference
from service.operators.sources import parse
from workers.protocol import Operator, Ratio, Report
from workers.protocol.kernelbench import NEW

THRESHOLDS = (1.0, 1.2, 2.0)
"""Values of p."""
BASELINES = ("eager", "compile")
"""Baselines, by their names in reports."""
Z = 1.96
"""Quantile of the normal distribution for 95% intervals."""


@dataclass(frozen=True)
class ProblemResult:
    """Result of one problem: speedups by baseline if it was judged, else the reason why not.

    A judged problem without a correct kernel has no speedups.
    """

    problem: str
    judged: bool
    reason: str = ""
    speedups: Mapping[str, Ratio] = field(default_factory=dict)


@dataclass(frozen=True)
class FastShare:
    """Row of the table: the number of judged problems that are more than `p` times as fast as a baseline.

    Attributes:
        baseline: Name of the baseline.
        p: Threshold of the speedup.
        count: Number of problems whose speedup exceeds it.
        certain: Number of problems whose speedup's lower bound exceeds it.
        judged: Number of judged problems.
        low: Lower end of Wilson's 95% interval of `count` over `judged`, as if problems were drawn at random.
        high: Upper end of that interval.
    """

    baseline: str
    p: float
    count: int
    certain: int
    judged: int
    low: float
    high: float


def speedups_of(report: Report, best: Ratio) -> dict[str, Ratio]:
    """Compute an elite's speedup over each baseline from `best`, that over the fastest; a problem has one shape."""
    times = report.shapes[0].baselines_us if report.shapes else {}
    found = {}
    for name in BASELINES:
        if name in times:
            slower = times[name] / min(times.values())
            found[name] = Ratio(low=best.low * slower, mid=best.mid * slower, high=best.high * slower)
    return found


def fast_shares(results: Sequence[ProblemResult]) -> list[FastShare]:
    """Return the table: every baseline with every threshold, over the judged problems."""
    judged = [result for result in results if result.judged]
    shares = []
    for baseline in BASELINES:
        known = [result.speedups[baseline] for result in judged if baseline in result.speedups]
        for p in THRESHOLDS:
            count = sum(speedup.mid > p for speedup in known)
            low, high = wilson(count, len(judged))
            certain = sum(speedup.low > p for speedup in known)
            shares.append(FastShare(baseline, p, count, certain, len(judged), low, high))
    return shares


def wilson(count: int, total: int) -> tuple[float, float]:
    """Compute Wilson's 95% score interval of a share."""
    if total == 0:
        return 0.0, 1.0
    share, room = count / total, Z * Z / total
    middle = (share + room / 2) / (1 + room)
    reach = Z * sqrt(share * (1 - share) / total + room / (4 * total)) / (1 + room)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def model_new(operator: Operator, source: str, note: str) -> str:
    """Write a kernel in KernelBench's form: a module `ModelNew` with the problem's parameters, in the same order.

    The candidate's own host code launches the kernels. A candidate that is such a module stays as it is.

    Args:
        operator: Operator that was imported from a problem.
        source: Source of the candidate.
        note: Comment at the beginning, as lines of plain text.

    Raises:
        InvalidInput: If the operator was not imported from a problem, or problem and candidate define the same name.
    """
    parts = parts_of_reference(operator)
    if parts is None:
        raise InvalidInput(f"operator '{operator.name}' was not imported from KernelBench", "operator")
    comments = "".join(f"# {line}\n" for line in note.splitlines())
    if NEW in _defined(source):
        return f"{comments}{source}"
    twice = _defined(parts.problem) & _defined(source)
    if twice:
        raise InvalidInput(f"the problem and the kernel both define {', '.join(sorted(twice))}", "candidate")
    given = {name: name for name in parts.arguments} | {name: _reached(path) for name, path in parts.state.items()}
    names = [item.name for item in operator.inputs] + [scalar.name for scalar in operator.scalars]
    called = f"{operator.entry}({', '.join(given[name] for name in names)})"
    if _leaves_results_out(source, operator.entry):
        present = f"each for each in {called} if each is not None"
        called = f"next({present})" if len(operator.outputs) == 1 else f"tuple({present})"
    return (
        f"{comments}{parts.problem.rstrip()}\n\n\n{source.strip()}\n\n\n"
        f"class {NEW}(Model):\n"
        f"    def forward(self, {', '.join(parts.arguments)}):\n"
        f"        return {called}\n"
    )


def _reached(path: str) -> str:
    """Return the expression for a parameter, such as `self.layers[0].weight` for `layers.0.weight`."""
    return "self" + "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in path.split("."))


def _leaves_results_out(source: str, entry: str) -> bool:
    """True if a function may return None beside its results, which the problem's `Model` does not."""
    functions = [item for item in parse(source).body if isinstance(item, ast.FunctionDef) and item.name == entry]
    found = [node.value for item in functions for node in ast.walk(item) if isinstance(node, ast.Return)]
    parts = [part for value in found if isinstance(value, ast.Tuple) for part in value.elts]
    return any(isinstance(node, ast.Constant) and node.value is None for part in parts for node in ast.walk(part))


def _defined(source: str) -> set[str]:
    """Return the names that a module binds at its top level, imports excepted."""
    names: set[str] = set()
    for item in parse(source).body:
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            names.add(item.name)
        elif isinstance(item, (ast.Assign, ast.AnnAssign)):
            names |= {node.id for node in ast.walk(item) if isinstance(node, ast.Name) and _is_bound(node)}
    return names


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
