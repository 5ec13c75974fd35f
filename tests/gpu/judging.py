"""From kernels to reports: they are traced, many at once, and measured when all of their operator are."""

import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Protocol

from pydantic import ValidationError

from tests.gpu.benches import PATIENCE_S, TRACE, answers
from tests.gpu.contracts import operators, shapes_of
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    Bundle,
    Device,
    ExecutorFailure,
    Graph,
    MeasureJob,
    Outcome,
    TracedVariant,
    TraceJob,
    TraceReport,
)
from workers.protocol.survey import CardSurvey, Survey

SURVEY_S = 120.0
"""Seconds to look at the cards; minutes pass on a host that has just started."""


class Kernel(Protocol):
    """What is judged: a source under a unique name, and the name of the operator that it is for."""

    @property
    def name(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def source(self) -> str: ...


@dataclass
class Traces:
    """What came of tracing.

    Attributes:
        reports: By name of the kernel.
        graphs: The reference at every shape, by operator.
        pacers: The first seed's bundle, by operator.
        failures: Why there is no report, by name.
    """

    reports: dict[str, TraceReport] = field(default_factory=dict)
    graphs: dict[str, tuple[Graph, ...]] = field(default_factory=dict)
    pacers: dict[str, Bundle] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, answer: Answer) -> None:
        """Take in what came of one job."""
        kind, _, operator = name.partition(" of ")
        if not isinstance(answer, TraceReport):
            self.failures[name] = (
                answer.error if isinstance(answer, ExecutorFailure) else f"it answered '{answer.kind}'"
            )
        elif kind == "reference" and answer.outcome is Outcome.CORRECT:
            self.graphs[operator] = answer.graphs
        elif kind == "pacer" and answer.variants and answer.variants[0].bundle is not None:
            self.pacers[operator] = answer.variants[0].bundle
        elif kind in ("reference", "pacer"):
            self.failures[name] = answer.reason
        else:
            self.reports[name] = answer

    def knows(self, operator: str) -> bool:
        """Whether kernels of an operator can be judged: there are its reference and its pacer."""
        return operator in self.graphs and operator in self.pacers

    def variants(self, name: str) -> Iterator[TracedVariant]:
        """Those of a kernel that there is something to judge of."""
        report = self.reports.get(name)
        return (variant for variant in (report.variants if report else ()) if variant.bundle is not None)


@cache
def cards() -> tuple[CardSurvey, ...]:
    """The cards of this machine, looked at by a process of its own: who has opened one may not fork."""
    command = (sys.executable, "-m", "workers", "survey")
    try:
        said = subprocess.run(command, capture_output=True, timeout=SURVEY_S, check=True).stdout
        return Survey.model_validate_json(said).cards
    except (OSError, subprocess.SubprocessError, ValidationError):
        return ()


def trace_job(name: str, operator: str, source: str | None, target: str = "sm_90") -> TraceJob:
    """Trace a source for all shapes of an operator; without one, export the reference."""
    contract = operators()[operator]
    return TraceJob(
        id=name,
        search="card",
        candidate=name,
        source=source,
        operator=contract,
        shapes=shapes_of(contract),
        target=target,
        deadline_s=PATIENCE_S / 3,
    )


def trace_all(kernels: Iterable[Kernel], target: str = "sm_90", processes: int | None = None) -> Traces:
    """Trace kernels, and of their operators the references and seeds, several at once."""
    found = Traces()
    deque(trace_by_operator(kernels, found, target, processes), maxlen=0)
    return found


def trace_by_operator(
    kernels: Iterable[Kernel],
    found: Traces,
    target: str = "sm_90",
    processes: int | None = None,
    carried: Mapping[str, TraceReport] = MappingProxyType({}),
) -> Iterator[list[Kernel]]:
    """Trace kernels, and of their operators the references and seeds, several at once.

    Args:
        kernels: Those of an operator need not stand together.
        found: Takes in what comes of it.
        target: What for.
        processes: Traces at once; None for one a core.
        carried: Traces of kernels that were made elsewhere, by name; these are not traced again.

    Yields:
        The kernels of an operator, when all that is needed to judge them is known.
    """
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.operator, []).append(kernel)
    jobs: dict[str, TraceJob] = {}
    for name, group in groups.items():
        jobs[f"reference of {name}"] = trace_job(name, name, None, target)
        jobs[f"pacer of {name}"] = trace_job(name, name, operators()[name].seeds[0], target)
        left = [kernel for kernel in group if kernel.name not in carried]
        jobs |= {kernel.name: trace_job(kernel.name, name, kernel.source, target) for kernel in left}
    found.reports |= carried
    waiting = Counter(job.operator.name for job in jobs.values())
    for name, answer in answers(jobs, TRACE, processes):
        found.note(name, answer)
        operator = jobs[name].operator.name
        waiting[operator] -= 1
        if not waiting[operator]:
            yield groups[operator]


def measure_job(
    kernel: Kernel, variant: TracedVariant, traces: Traces, device: Device, *, related: bool = False
) -> MeasureJob:
    """Judge a variant of a kernel beside its operator's seed; the seed itself is its own pacer.

    Args:
        kernel: What is judged.
        variant: The variant.
        traces: Hold the reference and the pacer.
        device: Where.
        related: Whether to relate times to those of the baselines, which takes half a minute for an operator.

    Raises:
        LookupError: If the operator's reference was not exported or its seed not traced.
        ValueError: If the variant has no bundle.
    """
    if variant.bundle is None:
        raise ValueError(f"variant {variant.index} of {kernel.name} has no bundle")
    pacer = traces.pacers[kernel.operator]
    paced = device.measures and pacer.identity != variant.bundle.identity
    job = MeasureJob(
        id=f"{kernel.name}-{variant.index}".replace("/", "-"),
        search="card",
        candidate=kernel.name,
        variant=variant.index,
        bundle=variant.bundle,
        operator=operators()[kernel.operator],
        graphs=traces.graphs[kernel.operator],
        device=device,
        source=None if device.measures else kernel.source,
        pacer=pacer.reduced() if paced else None,
        related=related,
    )
    return job.model_copy(update={"deadline_s": MEASURED_DEADLINE_S}) if device.measures else job
