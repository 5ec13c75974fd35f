"""What a problem of KernelBench is: its module made without data, its tensors named, its sizes tried.

Runs inside the jail, for a problem file is somebody's Python.
"""

import ast
import inspect
import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from workers.kernelbench.extents import Place, find_dimensions, find_ranges
from workers.kernelbench.origins import ValueOrigin, ValueOrigins
from workers.kernelbench.values import Undrawable, drawn
from workers.protocol import DTYPE_BYTES, Input, Output, Scalar
from workers.protocol.kernelbench import MODULE, PREPARATION, ProblemInspection, ProblemQuestion
from workers.tracer.reference import FILENAME, HINTS, RAISED, NotExportable, OperationGuard, line_of

MOST_INPUTS = 32
"""Inputs that an operator can have."""
LONGEST_NAME = 60
"""Characters of an argument's name, with room for what tells it from another."""
NEEDED = ("Model", "get_inputs", "get_init_inputs")
"""What a problem file defines."""
_NORMS = torch.nn.modules.batchnorm._BatchNorm


class ProblemUnfit(Exception):
    """No operator can be made of a problem; the message says why."""


@dataclass(frozen=True)
class ProblemTensor:
    """One tensor of a problem.

    Attributes:
        name: What our spec calls it.
        made: The tensor, without data.
        origin: How its values are made.
        parameter: What the module calls it; None where `forward` is given it.
    """

    name: str
    made: torch.Tensor
    origin: ValueOrigin
    parameter: str | None = None


@dataclass(frozen=True)
class InspectedProblem:
    """A problem that made its module and its inputs.

    Attributes:
        module: Its module; none of its tensors has data.
        arguments: What `forward` is given, by our names, in order.
        tensors: Those of them that are tensors, then parameters and buffers.
        sizes: Numbers that its text has names for.
    """

    module: torch.nn.Module
    arguments: Mapping[str, object]
    tensors: tuple[ProblemTensor, ...]
    sizes: Mapping[str, int]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The published shape of every tensor."""
        return [tuple(tensor.made.shape) for tensor in self.tensors]


def inspect_problem(request: bytes) -> bytes:
    """Look at the problem of a `ProblemQuestion`.

    Returns:
        An `ProblemInspection` as JSON.
    """
    question = ProblemQuestion.model_validate_json(request)
    try:
        found = _inspected(question)
    except ProblemUnfit as unfit:
        found = ProblemInspection(reason=str(unfit))
    except NotExportable as refusal:
        found = ProblemInspection(reason=_refused(refusal.reason), line=line_of(refusal))
    except SyntaxError as error:
        found = ProblemInspection(reason=f"the problem does not parse: {error.msg}", line=error.lineno)
    except ImportError as error:
        found = ProblemInspection(reason=f"the problem cannot import {error.name}", line=line_of(error))
    except DynamicOutputShapeException as error:
        found = ProblemInspection(reason=f"the problem calls {error.func}: {HINTS['nonzero']}", line=line_of(error))
    except RAISED as error:
        found = ProblemInspection(reason=_raised(error), line=line_of(error))
    return found.model_dump_json().encode()


def _refused(reason: str) -> str:
    """What is said of a problem that does what no reference may; `reason` is meant for those who write references."""
    named = reason.replace("the reference", "the problem", 1)
    if "draws random numbers" in named:
        return (
            f"{named.partition(':')[0]}, which draws random numbers, as dropout does in training: no two answers agree"
        )
    return named


def _raised(error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0]
    return f"the problem raised {type(error).__name__}: {said}"[:1000]


def _inspected(question: ProblemQuestion) -> ProblemInspection:
    problem = _made(question.source)
    running = _Running(problem)
    outputs = running.outputs()
    found = find_dimensions(problem.shapes, running.works)
    # An operator has at least one dimension, even if none may change.
    named = _named(problem, found or ((_first_place(problem.shapes),),))
    dims = {name: problem.shapes[places[0][0]][places[0][1]] for name, places in named.items()}
    ranges = find_ranges(named, dims, running.works) if found else {}
    try:
        inputs = tuple(_inputs(problem, named, dims, published=question.published))
    except Undrawable as error:
        raise ProblemUnfit(str(error)) from None
    return ProblemInspection(
        inputs=inputs,
        scalars=tuple(_scalar(name, value) for name, value in problem.arguments.items() if not _is_tensor(value)),
        outputs=outputs,
        arguments=tuple(problem.arguments),
        parameters={tensor.name: tensor.parameter for tensor in problem.tensors if tensor.parameter is not None},
        dims=dims,
        ranges=ranges,
        notes=tuple(_notes(problem)),
    )


def _made(source: str) -> InspectedProblem:
    """Have a problem make its module and its inputs, without data."""
    origins = ValueOrigins()
    namespace: dict[str, Any] = {"__name__": "reference"}
    with origins, torch.device("meta"), torch.no_grad():
        exec(compile(ast.parse(source, FILENAME), FILENAME, "exec"), namespace)
        for name in NEEDED:
            if not callable(namespace.get(name)):
                raise ProblemUnfit(f"it defines no '{name}'; a problem of KernelBench has {', '.join(NEEDED)}")
        exec(compile(PREPARATION, "<preparation>", "exec"), namespace)
        given = list(namespace["get_inputs"]())
    module: torch.nn.Module = namespace[MODULE]
    arguments = dict(zip(_argument_names(module, len(given)), given, strict=True))
    tensors = [ProblemTensor(name, value, origins.of(value)) for name, value in arguments.items() if _is_tensor(value)]
    for path, value in (*module.named_parameters(), *module.named_buffers()):
        name = _spelled(path, {*arguments, *(tensor.name for tensor in tensors)})
        tensors.append(ProblemTensor(name, value, origins.of(value), path))
    if not any(tensor.made.dim() for tensor in tensors):
        raise ProblemUnfit("none of its inputs has a dimension")
    if len(tensors) > MOST_INPUTS:
        raise ProblemUnfit(f"it has {len(tensors)} inputs and parameters; an operator takes {MOST_INPUTS} at most")
    sizes = {name: value for name, value in namespace.items() if type(value) is int and value > 0}
    return InspectedProblem(module, arguments, tuple(tensors), sizes)


def _argument_names(module: torch.nn.Module, count: int) -> list[str]:
    """What `forward` calls what it is given, as far as it says so."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    known = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD][:count]
    names: list[str] = []
    for index in range(count):
        names.append(_spelled(known[index] if index < len(known) else f"input_{index}", set(names)))
    return names


def _spelled(path: str, taken: Set[str]) -> str:
    """An argument's name for what a module calls `path`, unlike those that are taken."""
    name = re.sub(r"\W", "_", path)[:LONGEST_NAME] or "input"
    name = f"{name}_" if keyword.iskeyword(name) else name
    while name in taken:
        name = f"{name}_"
    return name


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _scalar(name: str, value: object) -> Scalar:
    if not isinstance(value, (bool, int, float)):
        raise ProblemUnfit(f"'{name}' is a {type(value).__name__}; an operator takes tensors and numbers")
    return Scalar.model_validate({"name": name, "dtype": type(value).__name__, "value": value})


class _Running:
    """The module on tensors without data, of any sizes."""

    def __init__(self, problem: InspectedProblem) -> None:
        self._problem = problem

    def outputs(self) -> tuple[Output, ...]:
        """What `forward` returns at the published size.

        Raises:
            NotExportable: If it does what no reference may.
            Unfit: If it returns something else than tensors of known dtypes.
        """
        results = self._run({}, guarded=True)
        dtypes = [_dtype("what forward returns", result) for result in results]
        names = ["y"] if len(dtypes) == 1 else [f"y{index}" for index in range(len(dtypes))]
        return tuple(Output.model_validate({"name": n, "dtype": d}) for n, d in zip(names, dtypes, strict=True))

    def works(self, sizes: Mapping[Place, int]) -> bool:
        """Whether `forward` returns something where extents have other sizes."""
        try:
            return all(isinstance(result, torch.Tensor) and result.numel() for result in self._run(sizes))
        except RAISED:
            return False

    def _run(self, sizes: Mapping[Place, int], *, guarded: bool = False) -> tuple[object, ...]:
        problem = self._problem
        with FakeTensorMode(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            made = {
                tensor.name: torch.empty(_resized(index, tensor.made.shape, sizes), dtype=tensor.made.dtype)
                for index, tensor in enumerate(problem.tensors)
            }
            given = tuple(made.get(name, value) for name, value in problem.arguments.items())
            state = {tensor.parameter: made[tensor.name] for tensor in problem.tensors if tensor.parameter is not None}
            with OperationGuard(list(made.values())) if guarded else nullcontext():
                results = torch.func.functional_call(problem.module, state, given)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _resized(index: int, shape: Sequence[int], sizes: Mapping[Place, int]) -> list[int]:
    return [sizes.get((index, axis), size) for axis, size in enumerate(shape)]


def _first_place(shapes: Sequence[Sequence[int]]) -> Place:
    return next(index for index, shape in enumerate(shapes) if shape), 0


def _named(problem: InspectedProblem, dimensions: Sequence[tuple[Place, ...]]) -> dict[str, tuple[Place, ...]]:
    """The places of every dimension by its name: that of a number in the problem's text which is its size."""
    taken = {tensor.name for tensor in problem.tensors} | set(problem.arguments)
    named: dict[str, tuple[Place, ...]] = {}
    for places in dimensions:
        size = problem.shapes[places[0][0]][places[0][1]]
        said = next((name for name, value in problem.sizes.items() if value == size and name not in named), None)
        named[_spelled(said or f"D{len(named)}", taken | set(named))] = places
    return named


def _inputs(
    problem: InspectedProblem, named: Mapping[str, tuple[Place, ...]], dims: Mapping[str, int], *, published: bool
) -> Iterator[Input]:
    name_of = {place: name for name, places in named.items() for place in places}
    for index, tensor in enumerate(problem.tensors):
        parameter = tensor.parameter is not None
        fields = drawn(tensor.name, tensor.made.dtype, tensor.origin, parameter=parameter, published=published)
        if not tensor.made.dtype.is_floating_point and "high" in fields:
            fields["high"] = next((name for name, size in dims.items() if size == fields["high"]), fields["high"])
        shape = [name_of.get((index, axis), size) for axis, size in enumerate(tensor.made.shape)]
        dtype = _dtype(f"'{tensor.name}'", tensor.made)
        body = {"name": tensor.name, "shape": shape, "dtype": dtype, "constant": parameter, **fields}
        yield Input.model_validate_json(json.dumps(body))


def _dtype(subject: str, tensor: object) -> str:
    if not isinstance(tensor, torch.Tensor):
        raise ProblemUnfit(f"{subject} is a {type(tensor).__name__}, and not tensors alone")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ProblemUnfit(f"{subject} is of dtype {name}; known: {', '.join(DTYPE_BYTES)}")
    return name


def _notes(problem: InspectedProblem) -> Iterator[str]:
    for tensor in problem.tensors:
        if tensor.origin.kind == "unknown" and tensor.made.dtype.is_floating_point:
            yield f"How '{tensor.name}' is made was not followed; its values are drawn freely."
    for path, _ in problem.module.named_buffers():
        yield f"The module's buffer '{path}' is an input as its parameters are; its own values are not promised."
    if any(isinstance(part, _NORMS) and part.training for part in problem.module.modules()):
        yield "Batch norm takes the statistics of its batch, as in training; running statistics are not kept."
