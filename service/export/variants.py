"""Functions of an exported module: symbolic plans, each with what Triton may assume of the arguments.

Triton compiles a kernel again for each set of whole-number arguments that 16 divides, and of those that are 1. An
exported function allows it fewer assumptions than hold, so that a few compiled kernels serve all sizes: one whose
arguments are all divisible, one that assumes nothing, and those between them that serve most shapes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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

LEAST_ONES = 0.1
"""Least share of the shapes that a symbolic plan serves at which arguments are 1, so that they get functions of their
own: a loop that runs once loses its bound and its stages, but one row among thousands is worth no further kernels."""

Assumed = frozenset[tuple[int, str]]
"""Arguments that 16 divides, or that are 1: index of the launch, and parameter."""


@dataclass(frozen=True)
class ExportedFunction:
    """A symbolic plan with the arguments that Triton may assume to be divisible by 16.

    Attributes:
        plan: The plan.
        assumed: Those arguments, among the ones that depend on sizes. All others of them are left unspecialised, but
            for parts of tuples, which Triton always specialises: guards say that these are not divisible and not 1.
        own: True if Triton specialises as in the trace, as in the plan of a single shape.
        ones: Arguments that depend on sizes and are 1: Triton makes constants of them.
    """

    plan: SymbolicPlan
    assumed: Assumed
    own: bool = False
    ones: Assumed = frozenset()

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
            elif place in self.ones:
                found.append(combine("==", term, 1))
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
            if launch == at and (at, name) not in self.assumed | self.ones and not _is_part(name)
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
            ones = frozenset(name for launch, name in self.ones if launch == at)
            found.append((step.function, constants, options, tuple(fixed), assumed, ones, self.own))
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
    return _places(plan, sizes, lambda value: value % DIVISOR == 0)


def ones(plan: SymbolicPlan, sizes: Mapping[str, int]) -> Assumed:
    """Return the arguments that depend on sizes and are 1 at some, without parts of tuples."""
    return frozenset(place for place in _places(plan, sizes, lambda value: value == 1) if not _is_part(place[1]))


def _places(plan: SymbolicPlan, sizes: Mapping[str, int], holds: Callable[[int], bool]) -> Assumed:
    try:
        return frozenset(place for place, term in variable(plan).items() if holds(int(evaluate(term, sizes))))
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
    wanted: Counter[tuple[int, Assumed, Assumed]] = Counter()
    none: Assumed = frozenset()
    served = _served(plans, shapes)
    frequent = [_frequent_ones(plan, sizes) for plan, sizes in zip(plans, served, strict=True)]
    for at, plan in enumerate(plans):
        for sizes in served[at]:
            assumed, single = divisible(plan, sizes), ones(plan, sizes) & frequent[at]
            wanted[at, assumed, none] += bool(assumed)
            wanted[at, assumed, single] += bool(single)
    ranked = [(len(mine) + 0.5, (at, none, none)) for at, mine in enumerate(served) if mine]
    ranked += [(float(count), key) for key, count in wanted.items() if count]
    chosen: dict[tuple[int, Assumed, Assumed], ExportedFunction] = {}
    compiled: set[object] = set()
    for _, key in sorted(ranked, key=lambda each: -each[0]):
        function = ExportedFunction(plans[key[0]], key[1], ones=key[2])
        if len(chosen) < MAX_COMPILED and len(compiled | function.kernels) <= MAX_COMPILED:
            compiled |= function.kernels
            chosen[key] = function
    order = sorted(chosen, key=lambda key: (key[0], -len(key[1] | key[2]), sorted(key[1]), sorted(key[2])))
    return [chosen[key] for key in order]


def _served(plans: Sequence[SymbolicPlan], shapes: Iterable[Mapping[str, int]]) -> list[list[Mapping[str, int]]]:
    """Return the sizes that each plan serves; the first plan that admits some serves them."""
    found: list[list[Mapping[str, int]]] = [[] for _ in plans]
    for sizes in shapes:
        at = next((at for at, plan in enumerate(plans) if plan.admits(sizes)), None)
        if at is not None:
            found[at].append(sizes)
    return found


def _frequent_ones(plan: SymbolicPlan, shapes: Sequence[Mapping[str, int]]) -> Assumed:
    """Return the arguments that are 1 at many of the shapes that a plan serves."""
    counts = Counter(place for sizes in shapes for place in ones(plan, sizes))
    return frozenset(place for place, count in counts.items() if count >= LEAST_ONES * len(shapes))


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
