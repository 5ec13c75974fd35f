"""Inspection of a KernelBench problem: builds its module without data, names its tensors, tries other sizes.

Runs inside the sandbox, because a problem file is untrusted Python.
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
from workers.kernelbench.values import Undrawable, ValueOrigin, ValueOrigins, drawn
from workers.protocol import DTYPE_BYTES, Input, Output, Scalar
from workers.protocol.kernelbench import MODULE, PREPARATION, ProblemInspection, ProblemQuestion
from workers.tracer.reference import FILENAME, HINTS, RAISED, NotExportable, OperationGuard, line_of

MOST_INPUTS = 32
"""Maximum number of inputs of an operator."""
LONGEST_NAME = 60
"""Maximum characters of an argument's name, with room for suffixes that make it unique."""
NEEDED = ("Model", "get_inputs", "get_init_inputs")
"""Names that a problem file defines."""
_NORMS = torch.nn.modules.batchnorm._BatchNorm


class ProblemUnfit(Exception):
    """The problem cannot become an operator; the message has the reason."""


@dataclass(frozen=True)
class ProblemTensor:
    """One tensor of a problem.

    Attributes:
        name: Its name in our spec.
        made: The tensor, without data.
        origin: Origin of its values.
        parameter: Its name in the module; None for an argument of `forward`.
    """

    name: str
    made: torch.Tensor
    origin: ValueOrigin
    parameter: str | None = None


@dataclass(frozen=True)
class InspectedProblem:
    """A problem with its module and its inputs.

    Attributes:
        module: Its module, whose tensors have no data.
        arguments: Arguments of `forward`, by our names, in order.
        tensors: The arguments that are tensors, then parameters and buffers.
        sizes: Named numbers of its text.
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
    """Inspect the problem of a `ProblemQuestion`.

    Returns:
        A `ProblemInspection` as JSON.
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
    """Rewrite the reason for refusing a reference, which addresses its author, for a problem."""
    named = reason.replace("the reference", "the problem", 1)
    if "draws random numbers" in named:
        return (
            f"{named.partition(':')[0]}, which draws random numbers, as dropout does in training: no two results agree"
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
    # An operator needs at least one dimension, even if none may change.
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
    """Run a problem to make its module and its inputs, without data."""
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
        raise ProblemUnfit(f"it has {len(tensors)} inputs and parameters; an operator takes at most {MOST_INPUTS}")
    sizes = {name: value for name, value in namespace.items() if type(value) is int and value > 0}
    return InspectedProblem(module, arguments, tuple(tensors), sizes)


def _argument_names(module: torch.nn.Module, count: int) -> list[str]:
    """Return the names of `forward`'s arguments, as far as its signature gives them."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    known = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD][:count]
    names: list[str] = []
    for index in range(count):
        names.append(_spelled(known[index] if index < len(known) else f"input_{index}", set(names)))
    return names


def _spelled(path: str, taken: Set[str]) -> str:
    """Return an argument's name for a module's `path`, different from all names that are taken."""
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
    """Runner of the module on tensors without data, of any sizes."""

    def __init__(self, problem: InspectedProblem) -> None:
        self._problem = problem

    def outputs(self) -> tuple[Output, ...]:
        """Return the outputs of `forward` at the published size.

        Raises:
            NotExportable: If it calls an operation that references may not use.
            ProblemUnfit: If a result is no tensor of a known dtype.
        """
        results = self._run({}, guarded=True)
        dtypes = [_dtype("what forward returns", result) for result in results]
        names = ["y"] if len(dtypes) == 1 else [f"y{index}" for index in range(len(dtypes))]
        return tuple(Output.model_validate({"name": n, "dtype": d}) for n, d in zip(names, dtypes, strict=True))

    def works(self, sizes: Mapping[Place, int]) -> bool:
        """Return True if `forward` returns non-empty tensors with these sizes of extents."""
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
            with OperationGuard(made) if guarded else nullcontext():
                results = torch.func.functional_call(problem.module, state, given)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _resized(index: int, shape: Sequence[int], sizes: Mapping[Place, int]) -> list[int]:
    return [sizes.get((index, axis), size) for axis, size in enumerate(shape)]


def _first_place(shapes: Sequence[Sequence[int]]) -> Place:
    return next(index for index, shape in enumerate(shapes) if shape), 0


def _named(problem: InspectedProblem, dimensions: Sequence[tuple[Place, ...]]) -> dict[str, tuple[Place, ...]]:
    """Return the places of every dimension by its name, from a number of its size in the problem's text."""
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
        raise ProblemUnfit(f"{subject} is a {type(tensor).__name__}, not a tensor")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ProblemUnfit(f"{subject} is of dtype {name}; known: {', '.join(DTYPE_BYTES)}")
    return name


def _notes(problem: InspectedProblem) -> Iterator[str]:
    for tensor in problem.tensors:
        if tensor.origin.kind == "unknown" and tensor.made.dtype.is_floating_point:
            yield f"The origin of '{tensor.name}' is unknown; its values are drawn freely."
    for path, _ in problem.module.named_buffers():
        yield f"The module's buffer '{path}' becomes an input, as parameters do; its own values are not guaranteed."
    if any(isinstance(part, _NORMS) and part.training for part in problem.module.modules()):
        yield "Batch norm uses the statistics of its batch, as in training; running statistics are not kept."
