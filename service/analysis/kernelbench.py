"""What searches for KernelBench's problems came to: kernels in its form, and its measure over many of them.

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

THRESHOLDS = (1.0, 1.2, 2.0)
"""The p of fast_p."""
BASELINES = ("eager", "compile")
"""What kernels are held against, by the names that reports have for them."""
Z = 1.96
"""Of the normal distribution: intervals cover 95%."""


@dataclass(frozen=True)
class ProblemResult:
    """What came of one problem: speedups by baseline if it was judged, else why it was not.

    A problem that was judged and has no correct kernel has no speedups either.
    """

    problem: str
    judged: bool
    reason: str = ""
    speedups: Mapping[str, Ratio] = field(default_factory=dict)


@dataclass(frozen=True)
class FastShare:
    """A line of the table: how many of the judged problems are faster than `p` times a baseline.

    Attributes:
        baseline: What kernels are held against.
        p: The threshold.
        count: Problems whose speedup exceeds it.
        certain: Those whose speedup's lower bound does.
        judged: All problems that were judged.
        low: Lower end of Wilson's 95% interval of `count` over `judged`, as if problems were drawn at random.
        high: Its upper end.
    """

    baseline: str
    p: float
    count: int
    certain: int
    judged: int
    low: float
    high: float


def speedups_of(report: Report, best: Ratio) -> dict[str, Ratio]:
    """Speedup over each baseline.

    Args:
        report: What an elite's speedup rests on; a problem has one benchmark shape.
        best: Its speedup over the fastest baseline.
    """
    times = report.shapes[0].baselines_us if report.shapes else {}
    found = {}
    for name in BASELINES:
        if name in times:
            slower = times[name] / min(times.values())
            found[name] = Ratio(low=best.low * slower, mid=best.mid * slower, high=best.high * slower)
    return found


def fast_shares(results: Sequence[ProblemResult]) -> list[FastShare]:
    """The table: every baseline with every threshold, over the problems that were judged."""
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
    """Wilson's score interval of a share, at 95%."""
    if total == 0:
        return 0.0, 1.0
    share, room = count / total, Z * Z / total
    middle = (share + room / 2) / (1 + room)
    reach = Z * sqrt(share * (1 - share) / total + room / (4 * total)) / (1 + room)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def model_new(operator: Operator, source: str, note: str) -> str:
    """A kernel in KernelBench's form: a module `ModelNew` with the problem's parameters, made in the same order.

    The candidate's own host code launches the kernels.

    Args:
        operator: Made of a problem.
        source: The candidate.
        note: What is said of the kernel at the beginning, lines of plain text.

    Raises:
        InvalidInput: If the operator was not made of a problem, or problem and candidate use one name for two things.
    """
    parts = parts_of_reference(operator)
    if parts is None:
        raise InvalidInput(f"operator '{operator.name}' was not made of a problem of KernelBench", "operator")
    twice = _defined(parts.problem) & _defined(source)
    if twice:
        raise InvalidInput(f"the problem and the kernel both define {', '.join(sorted(twice))}", "candidate")
    given = {name: name for name in parts.arguments} | {name: _reached(path) for name, path in parts.state.items()}
    names = [item.name for item in operator.inputs] + [scalar.name for scalar in operator.scalars]
    called = ", ".join(given[name] for name in names)
    comments = "".join(f"# {line}\n" for line in note.splitlines())
    return (
        f"{comments}{parts.problem.rstrip()}\n\n\n{source.strip()}\n\n\n"
        "class ModelNew(Model):\n"
        f"    def forward(self, {', '.join(parts.arguments)}):\n"
        f"        return {operator.entry}({called})\n"
    )


def _reached(path: str) -> str:
    """The expression for a parameter, such as `self.layers[0].weight` for `layers.0.weight`."""
    return "self" + "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in path.split("."))


def _defined(source: str) -> set[str]:
    """Names that a module binds at its top level by other means than imports."""
    names: set[str] = set()
    for item in parse(source).body:
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            names.add(item.name)
        elif isinstance(item, (ast.Assign, ast.AnnAssign)):
            names |= {node.id for node in ast.walk(item) if isinstance(node, ast.Name) and _is_bound(node)}
    return names


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
