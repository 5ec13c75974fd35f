"""Execution of plans: allocate, fill, copy and launch, step by step. Runs inside the sandbox."""

import hashlib
import re
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import randbelow

import numpy as np
import torch
from triton.language.semantic import IncompatibleTypeErrorImpl

from workers.interpreter.builder import BuilderOptions
from workers.interpreter.extract import extract_module
from workers.interpreter.faults import FILENAME, InterpreterFault, NotInterpretable, OutOfBounds
from workers.interpreter.instructions import MemoryInstructions, read, require_written
from workers.interpreter.language import FrontEnd, bind
from workers.interpreter.launch import run_launch, sample_launch
from workers.interpreter.memory import DeviceMemory, TrafficMeter
from workers.interpreter.message import InterpretReply, InterpretRequest, MeteredTraffic, pack, unpack
from workers.interpreter.recompilation import launch_key, recompile
from workers.interpreter.record import Record
from workers.interpreter.sampled_memory import SampledMemory
from workers.interpreter.spin_wait import may_wait
from workers.interpreter.translation import Functions, translate_candidate
from workers.interpreter.type_trace import TypeTrace
from workers.interpreter.undefined import UndefinedValues
from workers.protocol import REASON_CHARS, Allocate, Copy, Fill, Launch, Plan
from workers.protocol.tags import untagged
from workers.targets import TARGETS

KERNEL_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError,
    IncompatibleTypeErrorImpl,
)  # fmt: skip
"""Exceptions of code that the compiler accepts and the interpreter does not understand."""


@dataclass(frozen=True)
class _Candidate:
    """A translated candidate.

    Attributes:
        language: The bound front end.
        functions: The candidate's functions, translated.
        codes: Memory instructions of its kernels, by digest.
        trace: Compares the interpreter's values with the compiler's.
        records: The compiler's values, by `launch_key` a launch; empty if no kernel was recompiled.
    """

    language: FrontEnd
    functions: Functions
    codes: Mapping[str, MemoryInstructions]
    trace: TypeTrace
    records: Mapping[str, Record]

    def prepare(self, launch: Launch) -> None:
        """Prepare for a launch."""
        self.language.builder.widest_bytes = _code(launch, self).widest_bytes
        if self.records:
            self.trace.follow(self.records.get(launch_key(launch), {}))


def execute(request: bytes) -> bytes:
    """Execute an `InterpretRequest`. Returns an `InterpretReply`.

    The process cannot be reused: Triton's front end stays bound to the interpreter.
    """
    warnings.simplefilter("ignore")
    order, parts = unpack(request, InterpretRequest)
    codes = {digest: read(kernel) for digest, kernel in order.kernels.items()}
    try:
        taken = extract_module(order.source, _launched_names(order.launched))
        records = recompile(taken, order.target, order.launched, order.kernels)
        for plan in (plan for plan in order.launched if plan not in order.plans):
            require_written(plan, codes)
        language, trace = bind(_options(order.target)), TypeTrace()
        provided = {**language.provided, **trace.provided}
        functions = translate_candidate(taken, FILENAME, provided, language.replaced, is_recorded=bool(records))
    except InterpreterFault as caught:
        return pack(_stopped(caught, InterpretReply()), [])
    candidate = _Candidate(language, functions, codes, trace, records)
    inputs = len(order.input_names)
    finished: list[MeteredTraffic] = []
    results: list[bytes] = []
    fault: InterpreterFault | None = None
    with np.errstate(all="ignore"), torch.no_grad():
        coin = randbelow(2)
        for number, (plan, draws) in enumerate(zip(order.plans, order.draws, strict=True)):
            memory = _make_memory(plan, draws, order.input_names, parts, is_near=(number + coin) % 2 == 0)
            turns = _draw_order(parts[: draws * inputs])
            parts = parts[draws * inputs :]
            try:
                _run_plan(plan, candidate, memory, draws, turns)
            except InterpreterFault as caught:
                fault = caught
                break
            finished.append(_read(memory.meter))
            results += _results(plan, memory, draws)
        note = language.builder.note
        remarks = language.builder.remarks.conclude([plan for plan in order.launched if plan not in order.plans])
        sampled = tuple(
            _sample(plan, candidate, parts[number * inputs : (number + 1) * inputs], order.sample_seed)
            for number, plan in enumerate(() if fault else order.sampled)
        )
    reply = InterpretReply(finished=tuple(finished), sampled=sampled, note=note, remarks=remarks)
    return pack(_stopped(fault, reply) if fault else reply, results)


def _launched_names(plans: Sequence[Plan]) -> set[str]:
    """Return the names of launched kernels, and of the functions that they are given."""
    launches = [launch for plan in plans for launch in plan.launches]
    texts = (value for launch in launches for value in launch.constants.values() if isinstance(value, str))
    functions = {name for tag, name in map(untagged, texts) if tag == "function"}
    return {name.rpartition(".")[2] for name in functions.union(launch.function for launch in launches)}


def _stopped(fault: InterpreterFault, reply: InterpretReply) -> InterpretReply:
    found = {"outcome": fault.outcome, "reason": fault.reason[:REASON_CHARS], "line": fault.line}
    return reply.model_copy(update=found)


def _read(meter: TrafficMeter) -> MeteredTraffic:
    return MeteredTraffic(
        moved_bytes=round(meter.moved_bytes),
        dot_operations=round(meter.dot_operations),
        float_operations=round(meter.float_operations),
        special_operations=round(meter.special_operations),
    )


def _options(target: str) -> BuilderOptions:
    """Return precisions of float32 products as in Triton's backends. TF32 is the default where it exists.

    From sm_90 on special units move blocks of descriptors; elsewhere they become plain addresses.
    """
    takes_ptx = TARGETS[target].vendor == "nvidia"
    own = ("tf32", "tf32x3") if takes_ptx else ("tf32",) if target == "gfx942" else ()
    bulk = takes_ptx and int(target.removeprefix("sm_").rstrip("af")) >= 90
    precisions = (*own, "ieee", "bf16x3", "bf16x6")
    return BuilderOptions(bulk=bulk, allowed_dot_input_precisions=precisions, takes_ptx=takes_ptx)


def _make_memory(
    plan: Plan, draws: int, names: Sequence[str], parts: Sequence[memoryview], is_near: bool
) -> DeviceMemory:
    labels = [f"'{names[b.input]}'" if b.input is not None else f"allocation {b.id}" for b in plan.buffers]
    for position, output in enumerate(plan.outputs):
        if plan.buffers[output.buffer].input is None:
            labels[output.buffer] = f"output {position}"
    memory = DeviceMemory(draws, [buffer.bytes for buffer in plan.buffers], labels, is_near=is_near)
    for draw in range(draws):
        for buffer in plan.buffers:
            if buffer.input is not None:
                content = np.frombuffer(parts[draw * len(names) + buffer.input], dtype=np.uint8)
                memory.bytes_of(draw, buffer.id)[:] = content
    return memory


def _draw_order(parts: Sequence[memoryview]) -> np.random.Generator:
    """Seed the order of programs by the inputs: as secret as they are, and the same for the same inputs."""
    digest = hashlib.blake2b()
    for part in parts:
        digest.update(part)
    return np.random.default_rng(list(digest.digest()))


def _run_plan(plan: Plan, candidate: _Candidate, memory: DeviceMemory, draws: int, order: np.random.Generator) -> None:
    candidate.language.builder.chance = UndefinedValues(order, draws)
    for step in plan.steps:
        match step:
            case Allocate():  # Buffers are poisoned already.
                pass
            case Fill():
                for draw in range(draws):
                    memory.tensor(draw, step.target).fill_(step.value)
            case Copy():
                for draw in range(draws):
                    memory.tensor(draw, step.target).copy_(memory.tensor(draw, step.source))
            case Launch():
                _launch(step, candidate, memory, draws, order)


def _sample(
    plan: Plan, candidate: _Candidate, tiles: Sequence[memoryview], sample_seed: str
) -> tuple[MeteredTraffic, ...] | None:
    """Estimate the traffic of each launch of a plan from a few programs; None if programs may wait for each other.

    Args:
        plan: The plan.
        candidate: The candidate.
        tiles: The tile that each input repeats.
        sample_seed: Seed for the choice of programs.
    """
    builder, functions = candidate.language.builder, candidate.functions
    if any(may_wait(functions, launch) for launch in plan.launches):
        return None
    order = _draw_order([memoryview(sample_seed.encode())])
    builder.chance = UndefinedValues(order, 1)
    try:
        drawn = {b.id: np.frombuffer(tiles[b.input], np.uint8) for b in plan.buffers if b.input is not None}
        memory = SampledMemory([buffer.bytes for buffer in plan.buffers], drawn, order)
        found: list[MeteredTraffic] = []
        for step in plan.steps:
            match step:
                case Allocate():
                    pass
                case Fill():
                    memory.fill(step.target, step.value)
                case Copy():
                    memory.copy(step.source, step.target)
                case Launch():
                    memory.meter = TrafficMeter()
                    candidate.prepare(step)
                    sample_launch(builder, functions, step, memory, f"{sample_seed} {plan.shape.key} {len(found)}")
                    found.append(_read(memory.meter))
    except (InterpreterFault, MemoryError, *KERNEL_ERRORS):
        return None
    return tuple(found)


def _code(step: Launch, candidate: _Candidate) -> MemoryInstructions:
    return candidate.codes.get(step.kernel, MemoryInstructions())


def _launch(step: Launch, candidate: _Candidate, memory: DeviceMemory, draws: int, order: np.random.Generator) -> None:
    """Execute a launch, unless its machine code writes nothing: then memory stays as it is."""
    builder, code = candidate.language.builder, _code(step, candidate)
    if not code.writes:
        return
    candidate.prepare(step)
    builder.remarks.launch(step, memory)
    try:
        run_launch(builder, candidate.functions, step, memory, draws, order)
    except InterpreterFault as fault:
        fault.line = _line(fault) or step.line
        if isinstance(fault, OutOfBounds):
            fault.reason = f"{step.function} {fault.reason}; mask the access or size the grid to the shape"
        raise
    except KERNEL_ERRORS as error:
        stopped = NotInterpretable(f"{step.function}: {_explain(error)}")
        stopped.line = _line(error) or step.line
        raise stopped from error


def _explain(error: BaseException) -> str:
    unbound = re.match(r"cannot access (local|free) variable ('\w+')", str(error))
    if unbound is not None and isinstance(error, NameError):
        return (
            f"{unbound[2]} has no value here: a loop variable has none after its loop, nor has a name that only a "
            "branch binds that is not taken; bind it before"
        )
    if isinstance(error, NameError):
        return f"host code computes '{error.name}', and the interpreter runs kernels only; make it a constant"
    text = (str(error) or getattr(error, "message", "")).splitlines()
    return f"the interpreter stopped with {type(error).__name__}: {text[0] if text else ''}"


def _line(error: BaseException) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILENAME]
    return lines[-1] if lines else None


def _results(plan: Plan, memory: DeviceMemory, draws: int) -> list[bytes]:
    results = []
    for draw in range(draws):
        for view in plan.outputs:
            values = memory.tensor(draw, view).contiguous().reshape(-1)
            results.append(values.view(torch.uint8).numpy().tobytes() if view.elements else b"")
        inputs = sorted((b for b in plan.buffers if b.input is not None), key=lambda buffer: buffer.input or 0)
        results += [memory.bytes_of(draw, buffer.id).tobytes() for buffer in inputs]
    return results
