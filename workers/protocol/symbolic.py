"""The symbolic plan: a launch plan whose numbers are formulas over the operator's sizes, and the guards it needs.

It leaves the sandbox as hostile data, like a plan. It is a claim about other sizes than those of its trace, so it is
compared with plans traced there; each plan made from it passes all checks of `Plan`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from workers.protocol.base import Constant, WireModel
from workers.protocol.formula import Expression, Formula, FormulaInvalid, Term, combine, evaluate, terms_of
from workers.protocol.operator import DTYPE_BYTES, MAX_INPUTS, DtypeName, Shape
from workers.protocol.plan import (
    MAX_ARGUMENTS,
    MAX_BUFFERS,
    MAX_RANK,
    MAX_STEPS,
    Allocate,
    Buffer,
    BufferId,
    Copy,
    Fill,
    HostDescriptor,
    Launch,
    LaunchOptions,
    Number,
    NumberType,
    Parameter,
    Plan,
    Pointer,
    Step,
    View,
)

MAX_SYMBOLIC_PLANS = 64
"""Maximum number of symbolic plans of a candidate; a package has at most as many compiled kernels."""
MAX_INSTANCES = 2048
"""Maximum number of plans that the symbolic plans of a candidate are compared with."""
MAX_CASES = 64
"""Maximum number of cases of a symbolic plan; those of the catalogue's seeds have under 25."""
MAX_GUARDS = 256
"""Maximum number of guards of a case; those of the catalogue's seeds have under 20."""
MAX_PLAN_TERMS = 2**14
"""Maximum number of terms of all formulas of a symbolic plan; evaluating them takes milliseconds."""
UNKNOWN_KERNEL = "0" * 64
"""Digest of every kernel of a plan that was made from a symbolic plan, which names no machine code."""


class SymbolicBuffer(WireModel):
    """A piece of device memory, as in a plan."""

    id: BufferId
    bytes: Expression
    input: int | None = Field(default=None, ge=0, lt=MAX_INPUTS)


class SymbolicView(WireModel):
    """A strided tensor in a buffer, as in a plan."""

    buffer: BufferId
    offset_bytes: Expression = 0
    shape: tuple[Expression, ...] = Field(max_length=8)
    strides: tuple[Expression, ...] = Field(max_length=8)
    dtype: DtypeName

    @property
    def end_bytes(self) -> Term:
        """Offset of the first byte after the last element, if no size is zero."""
        last: Term = 0
        for size, stride in zip(self.shape, self.strides, strict=True):
            last = combine("+", last, combine("*", combine("-", size, 1), stride))
        return combine("+", self.offset_bytes, combine("*", combine("+", last, 1), DTYPE_BYTES[self.dtype]))


class SymbolicPointer(WireModel):
    """A pointer argument, as in a plan."""

    kind: Literal["pointer"] = "pointer"
    buffer: BufferId
    offset_bytes: Expression
    extent_bytes: Expression
    dtype: DtypeName


class SymbolicNumber(WireModel):
    """A scalar argument, as in a plan."""

    kind: Literal["number"] = "number"
    type: NumberType
    value: Expression


class SymbolicDescriptor(WireModel):
    """A host-side tensor descriptor, as in a plan, without the encoding that its kernel asks for."""

    kind: Literal["descriptor"] = "descriptor"
    buffer: BufferId
    offset_bytes: Expression
    dtype: DtypeName
    shape: tuple[Expression, ...] = Field(min_length=1, max_length=MAX_RANK)
    strides: tuple[Expression, ...] = Field(min_length=1, max_length=MAX_RANK)
    block: tuple[Annotated[int, Field(ge=1, le=2**20)], ...] = Field(min_length=1, max_length=MAX_RANK)
    nan_fill: bool = False
    tf32: bool | None = None
    layout: Annotated[str, Field(max_length=512)] | None = None

    @property
    def end_bytes(self) -> Term:
        """Offset of the first byte after the last element."""
        view = SymbolicView(
            buffer=self.buffer,
            offset_bytes=self.offset_bytes,
            shape=self.shape,
            strides=self.strides,
            dtype=self.dtype,
        )
        return view.end_bytes


SymbolicArgument = Annotated[SymbolicPointer | SymbolicNumber | SymbolicDescriptor, Field(discriminator="kind")]


class SymbolicFill(WireModel):
    """Set every element of a view to one value."""

    op: Literal["fill"] = "fill"
    target: SymbolicView
    value: bool | int | float


class SymbolicCopy(WireModel):
    """Copy a view to another of the same shape, converting the dtype."""

    op: Literal["copy"] = "copy"
    source: SymbolicView
    target: SymbolicView


class SymbolicLaunch(WireModel):
    """Start a kernel.

    `arguments` are those of all parameters that are not compile-time constants by their annotation; Triton makes some
    of them constants at some sizes, such as those that are 1. `options` are the launch options that were given.
    """

    op: Literal["launch"] = "launch"
    grid: tuple[Expression, Expression, Expression]
    arguments: tuple[SymbolicArgument, ...] = Field(max_length=MAX_ARGUMENTS)
    function: Annotated[str, Field(max_length=256)]
    parameters: tuple[Parameter, ...] = Field(max_length=MAX_ARGUMENTS)
    constants: Annotated[dict[Parameter, Constant], Field(max_length=MAX_ARGUMENTS)] = {}
    options: LaunchOptions = {}
    line: int | None = None

    @model_validator(mode="after")
    def _arguments_are_named(self) -> Self:
        if len(self.parameters) != len(self.arguments):
            raise ValueError("a launch has not as many parameters as arguments")
        return self


SymbolicStep = Annotated[Allocate | SymbolicFill | SymbolicCopy | SymbolicLaunch, Field(discriminator="op")]


class SymbolicPlan(WireModel):
    """The work of a candidate at all shapes where the guards of one of its cases hold.

    A case has the guards of one symbolic trace. Traces that differ only in their guards are cases of one plan.
    """

    cases: tuple[Annotated[tuple[Expression, ...], Field(max_length=MAX_GUARDS)], ...] = Field(
        min_length=1, max_length=MAX_CASES
    )
    buffers: tuple[SymbolicBuffer, ...] = Field(max_length=MAX_BUFFERS)
    steps: tuple[SymbolicStep, ...] = Field(max_length=MAX_STEPS)
    outputs: tuple[SymbolicView, ...] = Field(max_length=16)

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        if sum(1 for each in _formulas(self) for _ in terms_of(each)) > MAX_PLAN_TERMS:
            raise ValueError(f"a symbolic plan has more than {MAX_PLAN_TERMS} terms")
        return self

    @property
    def launches(self) -> tuple[SymbolicLaunch, ...]:
        """The launch steps, in order."""
        return tuple(step for step in self.steps if step.op == "launch")

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """Return True if the guards of a case hold at some sizes; a guard without a value there does not hold."""
        return any(_hold(guards, sizes) for guards in self.cases)

    def merged(self, other: "SymbolicPlan") -> "SymbolicPlan | None":
        """Return this plan with the cases of another one; None if it does something else, or they are too many."""
        cases = tuple(dict.fromkeys((*self.cases, *other.cases)))
        if len(cases) > MAX_CASES or self.model_copy(update={"cases": other.cases}) != other:
            return None
        return self.model_copy(update={"cases": cases})

    def at(self, shape: Shape) -> Plan:
        """Return the launch plan for a shape, with `UNKNOWN_KERNEL` in place of kernels.

        Raises:
            ValueError: If a formula has no value there, or the plan is invalid.
        """
        value = partial(evaluate, sizes=shape.dims)
        return Plan(
            shape=shape,
            buffers=tuple(
                Buffer(id=each.id, bytes=_whole(each.bytes, value), input=each.input) for each in self.buffers
            ),
            steps=tuple(_step(step, value) for step in self.steps),
            outputs=tuple(_view(view, value) for view in self.outputs),
        )

    def likened(self, plan: Plan) -> Plan:
        """Return a traced plan in the form of those made from this one.

        The kernels are `UNKNOWN_KERNEL`. An argument that Triton made a constant, because it is 1, is an argument.

        Raises:
            ValueError: If the plan's steps are others.
        """
        if [step.op for step in plan.steps] != [step.op for step in self.steps]:
            raise ValueError("the steps are others")
        steps = [
            _likened(step, like) if step.op == "launch" and like.op == "launch" else step
            for step, like in zip(plan.steps, self.steps, strict=True)
        ]
        return plan.model_copy(update={"steps": tuple(steps)})


def _hold(guards: tuple[Term, ...], sizes: Mapping[str, int]) -> bool:
    try:
        return all(evaluate(guard, sizes) for guard in guards)
    except FormulaInvalid:
        return False


Value = Callable[[Term], bool | int | float]


def _formulas(part: object) -> Iterator[Formula]:
    if isinstance(part, Formula):
        yield part
    elif isinstance(part, WireModel):
        for _, each in part:
            yield from _formulas(each)
    elif isinstance(part, tuple):
        for each in part:
            yield from _formulas(each)


def _whole(term: Term, value: Value) -> int:
    found = value(term)
    if not isinstance(found, int):
        raise FormulaInvalid(f"{found!r:.40} is no whole number")
    return int(found)


def _view(view: SymbolicView, value: Value) -> View:
    return View(
        buffer=view.buffer,
        offset_bytes=_whole(view.offset_bytes, value),
        shape=tuple(_whole(size, value) for size in view.shape),
        strides=tuple(_whole(stride, value) for stride in view.strides),
        dtype=view.dtype,
    )


def _argument(argument: SymbolicArgument, value: Value) -> Pointer | Number | HostDescriptor:
    if argument.kind == "number":
        return Number(type=argument.type, value=value(argument.value))
    if argument.kind == "descriptor":
        return HostDescriptor(
            buffer=argument.buffer,
            offset_bytes=_whole(argument.offset_bytes, value),
            dtype=argument.dtype,
            shape=tuple(_whole(size, value) for size in argument.shape),
            strides=tuple(_whole(stride, value) for stride in argument.strides),
            block=argument.block,
            nan_fill=argument.nan_fill,
            tf32=argument.tf32,
            layout=argument.layout,
        )
    return Pointer(
        buffer=argument.buffer,
        offset_bytes=_whole(argument.offset_bytes, value),
        extent_bytes=_whole(argument.extent_bytes, value),
        dtype=argument.dtype,
    )


def _step(step: Allocate | SymbolicFill | SymbolicCopy | SymbolicLaunch, value: Value) -> Step:
    match step:
        case SymbolicFill():
            return Fill(target=_view(step.target, value), value=step.value)
        case SymbolicCopy():
            return Copy(source=_view(step.source, value), target=_view(step.target, value))
        case SymbolicLaunch():
            x, y, z = (_whole(size, value) for size in step.grid)
            return Launch(
                kernel=UNKNOWN_KERNEL,
                grid=(x, y, z),
                arguments=tuple(_argument(each, value) for each in step.arguments),
                function=step.function,
                parameters=step.parameters,
                constants=step.constants,
                options=step.options,
                line=step.line,
            )
    return step


def _likened(launch: Launch, like: SymbolicLaunch) -> Launch:
    """Return a launch with the parameters of another as its arguments."""
    given = {
        # The encoding of a descriptor belongs to its kernel, as machine code does.
        name: each.model_copy(update={"map": None}) if each.kind == "descriptor" else each
        for name, each in zip(launch.parameters, launch.arguments, strict=True)
    }
    types = {
        name: each.type for name, each in zip(like.parameters, like.arguments, strict=True) if each.kind == "number"
    }
    constants = dict(launch.constants)
    for name in like.parameters:
        if name not in given:
            value = constants.pop(name, None)
            if not isinstance(value, int) or name not in types:
                raise ValueError(f"the launch has no argument '{name}'")
            given[name] = Number(type=types[name], value=value)
    if given.keys() != set(like.parameters):
        raise ValueError("the launch has other arguments")
    return launch.model_copy(
        update={
            "kernel": UNKNOWN_KERNEL,
            "parameters": like.parameters,
            "arguments": tuple(given[name] for name in like.parameters),
            "constants": constants,
        }
    )
