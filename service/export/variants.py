"""Functions of an exported module: symbolic plans, each with what Triton may assume of the arguments.

Triton compiles a kernel again for each set of whole-number arguments that 16 divides. An exported function allows it
fewer assumptions than hold, so that a few compiled kernels serve all sizes: one whose arguments are all divisible, one
that assumes nothing, and those between them that serve most shapes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from service.export.extraction import NotExtractable
from workers.protocol import Operator, Plan, SymbolicPlan
from workers.protocol.formula import Formula, FormulaInvalid, Term, combine, evaluate, sizes_of
from workers.protocol.symbolic import (
    SymbolicDescriptor,
    SymbolicLaunch,
    SymbolicNumber,
    SymbolicPointer,
    SymbolicStep,
    SymbolicView,
)
from workers.protocol.tags import untagged

MAX_COMPILED = 64
"""Maximum number of compiled kernels of a module: each is judged, and compiled again at first use."""
DIVISOR = 16
"""Divisor that Triton asks of whole-number arguments, as of addresses."""

Assumed = frozenset[tuple[int, str]]
"""Arguments that 16 divides: index of the launch, and parameter."""


@dataclass(frozen=True)
class ExportedFunction:
    """A symbolic plan with the arguments that Triton may assume to be divisible by 16.

    Attributes:
        plan: The plan.
        assumed: Those arguments, among the ones that depend on sizes. All others of them are left unspecialised, but
            for parts of tuples, which Triton always specialises: guards say that these are not divisible and not 1.
        own: True if Triton specialises as in the trace, as in the plan of a single shape.
    """

    plan: SymbolicPlan
    assumed: Assumed
    own: bool = False

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """Return True if the guards hold at some sizes, and 16 divides what it should."""
        try:
            return self.plan.admits(sizes) and all(evaluate(each, sizes) for each in self.conditions)
        except FormulaInvalid:
            return False

    @property
    def conditions(self) -> tuple[Term, ...]:
        """Guards for what Triton assumes of arguments that depend on sizes."""
        found = []
        for place, term in variable(self.plan).items():
            if place in self.assumed:
                found.append(combine("==", combine("%", term, DIVISOR), 0))
            elif _is_part(place[1]):
                found += [combine("!=", combine("%", term, DIVISOR), 0), combine("!=", term, 1)]
        return tuple(dict.fromkeys(found))

    def fixed(self, operator: Operator) -> dict[str, int]:
        """Return the sizes that the plan holds as numbers: those without a range, and all of a single shape."""
        ranges = {} if self.own else operator.ranges
        return {
            name: size
            for guard in self.plan.cases[0]
            if isinstance(guard, Formula) and guard.operation == "=="
            for name, size in (guard.terms,)
            if isinstance(name, str) and isinstance(size, int) and ranges.get(name, (size, size)) == (size, size)
        }

    def unspecialised(self, step: SymbolicLaunch) -> tuple[str, ...]:
        """Return the parameters of a launch that Triton must not specialise."""
        if self.own:
            return ()
        at = self.plan.launches.index(step)
        return tuple(
            name
            for launch, name in variable(self.plan)
            if launch == at and (at, name) not in self.assumed and not _is_part(name)
        )

    def launched(self, step: SymbolicLaunch) -> str:
        """Return the name of the device function that a launch starts."""
        return variant_name(step.function, self.unspecialised(step))

    @property
    def kernels(self) -> frozenset[object]:
        """Keys of the compiled kernels; equal keys compile to equal kernels, and others may, too."""
        found = []
        for at, step in enumerate(self.plan.launches):
            fixed = [
                each.model_dump_json(exclude={"offset_bytes", "extent_bytes", "buffer", "shape", "strides"})
                for name, each in zip(step.parameters, step.arguments, strict=True)
                if (at, name) not in variable(self.plan)
            ]
            constants = tuple(sorted((name, repr(value)) for name, value in step.constants.items()))
            options = tuple(sorted(step.options.items()))
            assumed = frozenset(name for launch, name in self.assumed if launch == at)
            found.append((step.function, constants, options, tuple(fixed), assumed, self.own))
        return frozenset(found)


def variant_name(function: str, unspecialised: Sequence[str]) -> str:
    """Return the name of a device function that Triton does not specialise by some parameters."""
    return "__any_".join((function, *unspecialised))


def _is_part(parameter: str) -> bool:
    """Return True for a part of a tuple."""
    return "." in parameter


def variable(plan: SymbolicPlan) -> dict[tuple[int, str], Term]:
    """Return the whole-number arguments that depend on sizes, by launch and parameter."""
    return {
        (at, name): argument.value
        for at, step in enumerate(plan.launches)
        for name, argument in zip(step.parameters, step.arguments, strict=True)
        if argument.kind == "number" and argument.type[0] in "iu" and sizes_of(argument.value)
    }


def divisible(plan: SymbolicPlan, sizes: Mapping[str, int]) -> Assumed:
    """Return the arguments that depend on sizes and are divisible by 16 at some."""
    try:
        return frozenset(place for place, term in variable(plan).items() if int(evaluate(term, sizes)) % DIVISOR == 0)
    except FormulaInvalid:
        return frozenset()


def choose_functions(plans: Sequence[SymbolicPlan], shapes: Iterable[Mapping[str, int]]) -> list[ExportedFunction]:
    """Choose functions that compile to at most `MAX_COMPILED` kernels and serve as many shapes as possible.

    Args:
        plans: Symbolic plans.
        shapes: Sizes to be served, each as often as it counts.

    Returns:
        Functions in the order in which they are tried: of those that admit a shape, the one that assumes most is first.
    """
    wanted: Counter[tuple[int, Assumed]] = Counter()
    served: Counter[int] = Counter()
    for sizes in shapes:
        at = next((at for at, plan in enumerate(plans) if plan.admits(sizes)), None)
        if at is not None:
            wanted[at, divisible(plans[at], sizes)] += 1
            served[at] += 1
    ranked = [(served[at] + 0.5, at, frozenset[tuple[int, str]]()) for at in served]
    ranked += [(float(count), at, assumed) for (at, assumed), count in wanted.items() if assumed]
    chosen: dict[tuple[int, Assumed], ExportedFunction] = {}
    compiled: set[object] = set()
    for _, at, assumed in sorted(ranked, key=lambda each: -each[0]):
        function = ExportedFunction(plans[at], assumed)
        if len(chosen) < MAX_COMPILED and len(compiled | function.kernels) <= MAX_COMPILED:
            compiled |= function.kernels
            chosen[at, assumed] = function
    order = sorted(chosen, key=lambda key: (key[0], -len(key[1]), sorted(key[1])))
    return [chosen[key] for key in order]


def exact_functions(plans: Iterable[Plan]) -> list[ExportedFunction]:
    """Return functions that each serve one shape, as its plan was traced."""
    return [ExportedFunction(_exact(plan), frozenset(), own=True) for plan in plans]


def _exact(plan: Plan) -> SymbolicPlan:
    body = plan.model_dump(exclude={"shape"})
    for step in body["steps"]:
        if step["op"] == "launch":
            step.pop("kernel")
            for argument in step["arguments"]:
                argument.pop("map", None)
    guards = [Formula("==", (name, size)) for name, size in plan.shape.dims.items()]
    try:
        return SymbolicPlan.model_validate({**body, "cases": [guards]})
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise NotExtractable(f"its plan cannot be written: {reason}") from error


def functions_in(plan: SymbolicPlan) -> set[str]:
    """Return the names of functions that a plan launches or passes to launches."""
    launched = {step.function for step in plan.launches}
    values = (value for step in plan.launches for value in step.constants.values() if isinstance(value, str))
    return launched | {name for tag, name in map(untagged, values) if tag == "function"}


def places_in(step: SymbolicStep) -> tuple[SymbolicView | SymbolicPointer | SymbolicDescriptor, ...]:
    """Return the views, pointers and descriptors of a step."""
    if step.op == "launch":
        return tuple(each for each in step.arguments if not isinstance(each, SymbolicNumber))
    if step.op == "copy":
        return (step.source, step.target)
    return (step.target,) if step.op == "fill" else ()


def buffers_in(step: SymbolicStep) -> set[int]:
    """Return the buffers that a step uses."""
    return {step.buffer} if step.op == "allocate" else {each.buffer for each in places_in(step)}
