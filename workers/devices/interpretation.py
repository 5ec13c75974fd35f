"""The interpreter's client: sends plans and inputs into the sandbox, and reads the untrusted reply."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import torch

from workers import sandbox
from workers.devices.selection import SelectedRun
from workers.inputs import draw_tiles
from workers.interpreter import TILE_BYTES, InterpretReply, InterpretRequest, execute, pack, unpack
from workers.protocol import DTYPE_BYTES, FinalJob, MeasureJob, Operator, Plan
from workers.protocol.job import BUSY
from workers.tracer.refusal import tidy

MEMORY_BYTES = 4 * 2**30
"""Maximum memory that an interpretation may add to the warm process, sampled benchmark buffers included."""


class InterpretationUnusable(Exception):
    """The interpreter gave no usable reply; the message says why, to a person or an LLM."""


@dataclass(frozen=True)
class InterpretedResult:
    """Results of one plan on one draw."""

    outputs: tuple[torch.Tensor, ...]
    inputs_after: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Interpretation:
    """The reply's header, and its results by finished case and draw; checked for size and number only."""

    reply: InterpretReply
    results: list[list[InterpretedResult]]


def interpret(
    job: MeasureJob | FinalJob,
    cases: Sequence[SelectedRun],
    drawn: Sequence[Sequence[tuple[torch.Tensor, ...]]],
    sampled: Sequence[Plan],
    limit_s: float,
    interpreter_function: Callable[[bytes], bytes] = execute,
) -> Interpretation:
    """Execute cases on their draws, and sample larger plans.

    Args:
        job: Names the source, the target and the operator.
        cases: Plans to execute.
        drawn: Inputs, by case and draw.
        sampled: Plans whose traffic is sampled.
        limit_s: Maximum seconds of processor time in the sandbox; by the clock `BUSY` times as many.
        interpreter_function: Function that runs in the sandbox.

    Raises:
        InterpretationUnusable: If there is no valid reply.
        SandboxFailed: If the sandbox cannot be set up.
    """
    launched = _launched(job, cases)
    request = InterpretRequest(
        source=job.source or "",
        target=job.bundle.target,
        input_names=tuple(item.name for item in job.operator.given),
        plans=tuple(case.plan for case in cases),
        draws=tuple(len(case.draws) for case in cases),
        sampled=tuple(sampled),
        sample_seed=_sample_seed(job),
        launched=launched,
        kernels=job.bundle.restricted(launched).kernels,
    )
    parts = [_to_bytes(tensor) for each in (*chain.from_iterable(drawn), *_tiles(job, sampled)) for tensor in each]
    limits = sandbox.SandboxLimits(wall_s=BUSY * limit_s, cpu_s=limit_s, memory_bytes=MEMORY_BYTES)
    result = sandbox.run(interpreter_function, pack(request, parts), limits)
    if result.ending is not sandbox.SandboxEnding.RETURNED:
        raise InterpretationUnusable(_explain(result, limit_s))
    try:
        reply, blobs = unpack(result.reply, InterpretReply)
        results = _read(job.operator, cases[: len(reply.finished)], blobs)
    except ValueError as error:
        raise InterpretationUnusable(f"the interpreter's reply is invalid: {error}") from error
    done = reply.outcome is not None or (len(reply.finished) == len(cases) and _fits(reply, sampled))
    if not done or (reply.outcome is not None and len(reply.finished) >= len(cases)):
        raise InterpretationUnusable("the interpreter's reply is invalid: its plans are not those of the request")
    return Interpretation(reply, results)


def _sample_seed(job: MeasureJob | FinalJob) -> str:
    """Return the seed of samples: no kernel knows its own hash, and it stays the same."""
    return job.bundle.identity


def _tiles(job: MeasureJob | FinalJob, sampled: Sequence[Plan]) -> list[tuple[torch.Tensor, ...]]:
    """Return the tiles that the inputs of each sampled plan repeat."""
    return [draw_tiles(job.operator, plan.shape, TILE_BYTES, _sample_seed(job).encode()) for plan in sampled]


def _fits(reply: InterpretReply, sampled: Sequence[Plan]) -> bool:
    """Return True if the reply has as many launches per sampled plan as the plan, if any."""
    counts = [None if launches is None else len(launches) for launches in reply.sampled]
    return len(counts) == len(sampled) and all(
        count in (None, len(plan.launches)) for count, plan in zip(counts, sampled, strict=True)
    )


def _launched(job: MeasureJob | FinalJob, cases: Sequence[SelectedRun]) -> tuple[Plan, ...]:
    """Return the executed plans, and for a measurement also the plans whose times are predicted."""
    executed = tuple(case.plan for case in cases)
    predicted = job.bundle.benchmarks if isinstance(job, MeasureJob) else ()
    return (*executed, *(plan for plan in predicted if plan not in executed))


def _explain(result: sandbox.SandboxResult, limit_s: float) -> str:
    if result.ending is sandbox.SandboxEnding.TIMEOUT:
        return f"the kernel did not end within {limit_s:g} s in the interpreter: an endless loop, or too much work"
    lines = result.detail.strip().splitlines()
    return tidy(f"the interpreter's process ended ({result.ending.value}): {lines[-1] if lines else 'no message'}")


def _to_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def _read(
    operator: Operator, cases: Sequence[SelectedRun], blobs: Sequence[memoryview]
) -> list[list[InterpretedResult]]:
    """Return tensors of the reply, by case and draw."""
    remaining = chain(blobs, repeat(memoryview(b"")))
    expected = 0
    results: list[list[InterpretedResult]] = []
    for case in cases:
        outputs = [(view.dtype, view.shape) for view in case.plan.outputs]
        inputs = [(item.dtype, operator.input_shape(item, case.plan.shape.dims)) for item in operator.given]
        expected += len(case.draws) * len(outputs + inputs)
        rows = [(_take(remaining, outputs), _take(remaining, inputs)) for _ in case.draws]
        results.append([InterpretedResult(*row) for row in rows])
    if expected != len(blobs):
        raise ValueError(f"it holds {len(blobs)} results instead of {expected}")
    return results


def _take(blobs: Iterator[memoryview], kinds: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[torch.Tensor, ...]:
    tensors = []
    for dtype, shape in kinds:
        blob, size = next(blobs), torch.Size(shape).numel() * DTYPE_BYTES[dtype]
        if len(blob) != size:
            raise ValueError(f"a result has {len(blob)} bytes instead of {size}")
        content = torch.frombuffer(bytearray(blob), dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
        tensors.append(content.view(getattr(torch, dtype)).reshape(shape))
    return tuple(tensors)
