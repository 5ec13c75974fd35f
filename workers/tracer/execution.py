"""Execution of one candidate: load it, find its configurations, call its entry for every shape of every variant."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, ModuleType, TracebackType
from typing import Any

import torch
from pydantic import ValidationError

from workers.protocol import Input, Kernel, Outcome, Output, Plan, Shape, ShapeRole, Stage, TraceJob
from workers.protocol.job import BUSY
from workers.targets import TARGETS
from workers.tracer import custom_operators, source
from workers.tracer.compiler import Compiler
from workers.tracer.fake_device import pretend
from workers.tracer.launches import EntryCall, LaunchInterceptor
from workers.tracer.modules import PREPARE, with_entry
from workers.tracer.recorder import MadeTensors, PlanRecorder
from workers.tracer.refusal import TraceRefused, crash, raising_line, tidy
from workers.tracer.reply import TracedPlans, TraceEnded, TraceReply
from workers.tracer.tensors import LoadingTensors, TargetTensors
from workers.tracer.tuning import Choice, Tuning

SHARE = 0.8
"""Share of the deadline for variants; the rest is for the reply, which may be megabytes."""
ALLOWED = "which the operator's ranges allow; whoever wrote it may narrow them: `[ranges]` in the spec, or `--vary`"
"""End of a reason that only a boundary shape meets."""
LEAST_S = 2.0
"""Minimum processor seconds of a variant before it is cut; most candidates need one for all shapes."""


class TimeBudget:
    """Processor seconds of a trace; wall time counts too, divided by `BUSY`.

    Args:
        deadline_s: Limit of the job.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._began, self._used = time.perf_counter(), time.process_time()

    @property
    def spent_s(self) -> float:
        """Seconds spent so far."""
        return max(time.process_time() - self._used, (time.perf_counter() - self._began) / BUSY)

    def suffices(self, seconds: float) -> bool:
        """Return True if work of so many seconds still fits."""
        return self.spent_s + seconds <= SHARE * self._deadline_s

    @contextmanager
    def cut(self, others: int) -> Iterator[None]:
        """Refuse the block's work once it has taken half of the time left, if other variants wait for the rest.

        A candidate can lift this limit; that of its process stays. A step of the compiler ends before it counts.

        Args:
            others: Number of variants that come after it.
        """
        limit_s = max(LEAST_S, (SHARE * self._deadline_s - self.spent_s) / 2)

        def refuse(_signal: int, _frame: FrameType | None) -> None:
            reason = f"this configuration of {others + 1} left takes longer than its limit of {limit_s:.0f} s"
            raise TraceRefused(Outcome.TRACE_TIMEOUT, f"{reason}: use smaller blocks or fewer stages", Stage.COMPILE)

        former = signal.signal(signal.SIGPROF, refuse)
        signal.setitimer(signal.ITIMER_PROF, limit_s if others else 0.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, former)


@dataclass
class CandidateEdge:
    """Context that turns any exception of the candidate's code, except `MemoryError`, into a `TraceEnded`."""

    ended: TraceEnded = field(default_factory=TraceEnded)

    def __enter__(self) -> "CandidateEdge":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None or isinstance(error, MemoryError):
            return False
        refusal = error if isinstance(error, TraceRefused) else _invalid(error) or crash(error)
        self.ended = TraceEnded(outcome=refusal.outcome, reason=refusal.reason, stage=refusal.stage, line=refusal.line)
        return True


class CandidateExecution:
    """One candidate in a process of its own: the changes to Triton and torch are never undone."""

    def __init__(self, job: TraceJob, compiler: Compiler, allowed_imports: Sequence[str]) -> None:
        self._job = job
        self._compiler = compiler
        self._allowed = allowed_imports
        self._tuning = Tuning()
        self._launches = LaunchInterceptor()
        self._kernels: dict[str, Kernel] = {}
        self._time = TimeBudget(job.deadline_s)
        self._made: MadeTensors = {}

    def run(self) -> TraceReply:
        """Trace all variants.

        Raises:
            TraceRefused: If the candidate fails before there are variants.
        """
        self._open()
        variants = self._trace_variants(self._tuning.choices(self._job.seed))
        launched = {launch.kernel for variant in variants for plan in variant.plans for launch in plan.launches}
        kernels = {digest: kernel for digest, kernel in self._kernels.items() if digest in launched}
        best = next((variant for variant in variants if variant.outcome is Outcome.CORRECT), variants[0])
        ended = best.model_dump(include=set(TraceEnded.model_fields))
        return TraceReply(variants=tuple(variants), kernels=kernels, **ended)

    def _open(self) -> None:
        """Load the candidate and find its functions and configurations."""
        module = self._module = self._load()
        self._entry = self._find_entry(module, self._job.operator.entry)
        if self._job.operator.backward:
            self._backward = self._find_entry(module, self._job.operator.backward_entry)
        self._launches.namespace = vars(module)
        self._find_configurations()

    def _load(self) -> ModuleType:
        operator = self._job.operator
        entries = (operator.entry, *((operator.backward_entry,) if operator.backward else ()))
        text = with_entry(self._job.source or "", operator)
        self._is_module = text != self._job.source
        candidate = source.parse(text, self._allowed, entries)
        pretend(TARGETS[self._job.target])
        custom_operators.install()
        self._compiler.install()
        self._tuning.install()
        self._launches.install()
        with LoadingTensors():
            return source.load(candidate)

    def _find_entry(self, module: ModuleType, name: str) -> Callable[..., object]:
        entry: object = getattr(module, name, None)
        if not callable(entry):
            raise TraceRefused(Outcome.SYNTAX_ERROR, f"defines no function '{name}'", Stage.PARSE)
        return entry

    def _find_configurations(self) -> None:
        """Run without compiling, to find autotuned kernels and the configurations that their pruning leaves."""
        benchmark = [shape for shape in self._job.shapes if shape.role is ShapeRole.BENCHMARK]
        for shape in benchmark or self._job.shapes:
            self._call(shape, compiles=False)
            if not self._tuning.is_needed:
                return

    def _trace_variants(self, choices: Sequence[Choice]) -> list[TracedPlans]:
        """Trace variants in turn, as long as the time left suffices for the longest one so far."""
        found: list[TracedPlans] = []
        longest_s = 0.0
        for number, choice in enumerate(choices, start=1):
            before_s = self._time.spent_s
            if found and not self._time.suffices(longest_s):
                found.append(self._left_out(choice, len(choices)))
                continue
            found.append(self._trace_variant(choice, len(choices) - number))
            if found[-1].outcome is not Outcome.TRACE_TIMEOUT:
                longest_s = max(longest_s, self._time.spent_s - before_s)
        return found

    def _left_out(self, choice: Choice, count: int) -> TracedPlans:
        reason = (
            f"compiling {count} configurations at {len(self._job.shapes)} shapes takes longer than the limit of "
            f"{self._job.deadline_s:g} s: offer fewer configurations"
        )
        ended = TraceEnded(outcome=Outcome.TRACE_TIMEOUT, reason=reason, stage=Stage.COMPILE)
        return TracedPlans(configuration=self._tuning.describe(choice), **ended.model_dump())

    def _trace_variant(self, choice: Choice, others: int) -> TracedPlans:
        """Trace all plans of one variant, up to the first failure.

        The cheapest benchmark shape comes first: most kernels that do not fit on the target fail there, and the others
        are not compiled then.
        """
        self._tuning.choose(choice)
        operator = self._job.operator
        plans: dict[str, Plan] = {}

        def order(shape: Shape) -> tuple[bool, int]:
            return shape.role is not ShapeRole.BENCHMARK, operator.input_bytes(shape.dims)

        with CandidateEdge() as edge, self._time.cut(others):
            for shape in sorted(self._job.shapes, key=order):
                plans[shape.key] = self._trace_shape(shape)
        ordered = tuple(plans[each.key] for each in self._job.shapes) if not edge.ended.reason else ()
        ended = edge.ended.model_dump()
        if edge.ended.reason and plans and shape.role is not ShapeRole.BENCHMARK:
            ended["reason"] = tidy(f"{edge.ended.reason} (at {shape.key}, {ALLOWED})")
        return TracedPlans(configuration=self._tuning.describe(choice), plans=ordered, **ended)

    def _trace_shape(self, shape: Shape) -> Plan:
        recorder, returned = self._call(shape, compiles=True)
        outputs = self._checked(returned, self._job.operator.results, recorder)
        plan = recorder.plan(shape, outputs)
        if not plan.launches and not self._job.operator.is_empty(shape.dims):
            raise TraceRefused(Outcome.PLAN_REJECTED, "launches no kernel", line=self._entry_line)
        return plan

    def _call(self, shape: Shape, compiles: bool) -> tuple[PlanRecorder, Sequence[Any]]:
        """Call the entry for a shape. Returns all results."""
        operator = self._job.operator
        self._prepare(shape.dims)
        given = [make_input(item, operator.input_shape(item, shape.dims)) for item in operator.given]
        recorder = PlanRecorder(operator.policy, given, self._made)
        arguments = operator.arguments(given, shape.dims)
        return recorder, self._results(recorder, arguments, operator.scalar_values(shape.dims), compiles)

    def _prepare(self, sizes: Mapping[str, object]) -> None:
        """Make a candidate's module for a shape."""
        if self._is_module:
            self._launches.session = None
            with LoadingTensors():
                getattr(self._module, PREPARE)(sizes)

    def _results(
        self, recorder: PlanRecorder, given: Sequence[torch.Tensor | None], scalars: Sequence[object], compiles: bool
    ) -> Sequence[Any]:
        """Call the entry, then the backward entry if there is one. Returns all results."""
        operator = self._job.operator
        inputs, upstream = given[: len(operator.inputs)], given[len(operator.inputs) :]
        self._launches.session = EntryCall(recorder, self._kernels, compiles)
        try:
            with torch.no_grad(), recorder, TargetTensors(recorder.address_of):
                outputs = self._outputs(self._entry(*inputs, *scalars), inputs)
                if not operator.backward:
                    return outputs
                gradients = self._backward(*upstream, *inputs, *outputs, *scalars)
                return [*outputs, *self._several(gradients, operator.results[len(outputs) :])]
        except TypeError as error:
            refusal = crash(error)
            raise TraceRefused(refusal.outcome, refusal.reason, line=refusal.line or self._entry_line) from error

    def _outputs(self, result: object, inputs: Sequence[torch.Tensor | None]) -> Sequence[Any]:
        """Return the outputs of a call; contents of inputs need not be returned."""
        operator = self._job.operator
        own = [output for number, output in enumerate(operator.outputs) if number not in operator.in_place]
        returned = _sequence(result, len(own))
        if len(returned) != len(own):
            return self._several(result, operator.outputs)
        left = iter(returned)
        numbers = range(len(operator.outputs))
        return [inputs[operator.in_place[at]] if at in operator.in_place else next(left) for at in numbers]

    def _several(self, result: object, expected: Sequence[Output]) -> Sequence[Any]:
        """Return the results of a function as a sequence.

        Raises:
            TraceRefused: `wrong_output_type` if there are more or fewer than expected.
        """
        returned = _sequence(result, len(expected))
        if len(returned) != len(expected):
            names = ", ".join(output.name for output in expected)
            raise self._wrong_output(f"returns {len(returned)} results; the operator has {len(expected)}: {names}")
        return returned

    def _checked(
        self, returned: Sequence[Any], expected: Sequence[Output], recorder: PlanRecorder
    ) -> list[torch.Tensor]:
        """Check the returned values against the operator.

        Raises:
            TraceRefused: `wrong_output_type`, or `plan_rejected` for memory of an input that is not mutable.
        """
        for value, output in zip(returned, expected, strict=True):
            if not isinstance(value, torch.Tensor) or not value.is_meta:
                raise self._wrong_output(f"returns a {_kind(value)} for '{output.name}', not a tensor of the device")
            if str(value.dtype) != f"torch.{output.dtype}":
                raise self._wrong_output(f"returns {value.dtype} for '{output.name}', which is {output.dtype}")
            if recorder.is_kept(value):
                reason = f"returns for '{output.name}' what an earlier call allocated: allocate outputs in every call"
                raise TraceRefused(Outcome.PLAN_REJECTED, reason, line=self._entry_line)
            source = recorder.input_of(value)
            if source is not None and not self._job.operator.given[source].mutable:
                name = self._job.operator.given[source].name
                reason = f"returns memory of input '{name}' for '{output.name}': allocate outputs"
                raise TraceRefused(Outcome.PLAN_REJECTED, reason, line=self._entry_line)
        return list(returned)

    def _wrong_output(self, reason: str) -> TraceRefused:
        return TraceRefused(Outcome.WRONG_OUTPUT_TYPE, reason, line=self._entry_line)

    @property
    def _entry_line(self) -> int | None:
        code = getattr(self._entry, "__code__", None)
        return code.co_firstlineno if code else None


def make_input(item: Input, shape: Sequence[int]) -> torch.Tensor:
    """Return an input without data; its sizes may be symbolic."""
    return torch.empty(tuple(shape), dtype=getattr(torch, item.dtype), device="meta")


def _sequence(result: object, count: int) -> Sequence[Any]:
    """Return a function's results as a sequence.

    A None beside them is left out if there are `count` without it: functions return it for what they do not compute.
    """
    returned: Sequence[Any] = result if isinstance(result, tuple | list) else (result,)
    present = [value for value in returned if value is not None]
    return present if len(present) == count else returned


def _invalid(error: BaseException) -> TraceRefused | None:
    """Return the refusal of a value that plans cannot hold; None for other errors."""
    if not isinstance(error, ValidationError):
        return None
    said = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
    return TraceRefused(Outcome.PLAN_REJECTED, said, line=raising_line(error))


def _kind(value: object) -> str:
    return "host tensor" if isinstance(value, torch.Tensor) else type(value).__name__
