"""Inspection of a Python file: names the tensors of its computation, and tries other sizes.

Runs inside the sandbox, because the file is untrusted Python.
"""

import builtins
import json
import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod

import torch
from pydantic import ValidationError
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from workers.errors import first_line
from workers.inputs import draw
from workers.kernelbench.arguments import labels, spelled
from workers.kernelbench.extents import Place, SizeNumber, find_dimensions, find_ranges, other_size, varied
from workers.kernelbench.loading import LoadedProblem, ProblemUnfit, load
from workers.kernelbench.naming import size_numbers, unpacked_names
from workers.kernelbench.orders import ObservedOrder, order_of, taken_for_starts
from workers.kernelbench.reach import Named, Ranges, bounds_of_indices
from workers.kernelbench.values import Undrawable, drawn
from workers.protocol import DTYPE_BYTES, Distribution, Input, Operator, Output, Scalar, Shape
from workers.protocol.distribution import ORDERED
from workers.protocol.extent import names_in, size_of
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion
from workers.tracer.constants import ConstantReplay
from workers.tracer.recurrent import WholeLayers
from workers.tracer.reference import (
    HINTS,
    RAISED,
    OperationGuard,
    cannot_import,
    line_of,
    remedy_for,
    without_fast_paths,
)
from workers.tracer.refusal import NotExportable
from workers.tracer.without_card import without_card

MOST_OPERATIONS = 30_000
"""Maximum number of operations of all runs with other sizes, at 0.3 to 2 ms each: a model of 1000 runs 30 times."""
MANY_TENSORS = 32
"""Number of tensors above which the extents of parameters change only with numbers of the file."""
BYTES = {"uint8": 256.0, "int8": 128.0}
"""Ends of dtypes whose values are rarely indices: what has all of them is bounded by no dimension."""
SAY_WHAT_THEY_ARE = (
    "take arguments that any such integers fit, or whose examples have an order, such as offsets of segments with "
    "their end, or different indices"
)
"""Remedy for integers that the file takes only with properties that nothing shows."""
_NORMS = torch.nn.modules.batchnorm._BatchNorm


def inspect_problem(request: bytes) -> bytes:
    """Inspect the problem of a `ProblemQuestion`.

    Returns:
        A `ProblemInspection` as JSON.
    """
    question = ProblemQuestion.model_validate_json(request)
    try:
        with _unlogged():  # Sizes that do not work are no errors.
            found = _inspected(question)
    except ProblemUnfit as unfit:
        found = ProblemInspection(reason=str(unfit))
    except NotExportable as refusal:
        found = ProblemInspection(reason=_refused(refusal.reason), line=line_of(refusal))
    except SyntaxError as error:
        found = ProblemInspection(reason=f"the problem does not parse: {error.msg}", line=error.lineno)
    except ImportError as error:
        found = ProblemInspection(reason=f"the problem {cannot_import(error)}", line=line_of(error))
    except DynamicOutputShapeException as error:
        found = ProblemInspection(reason=f"the problem calls {error.func}: {HINTS['nonzero']}", line=line_of(error))
    except RAISED as error:
        found = ProblemInspection(reason=_raised(error), line=line_of(error))
    return found.model_dump_json().encode()


@contextmanager
def _unlogged() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def _refused(reason: str) -> str:
    """Rewrite the reason for refusing a reference, which addresses its author, for a problem."""
    named = reason.replace("the reference", "the problem", 1)
    if "draws random numbers" in named:
        return (
            f"{named.partition(':')[0]}, which draws random numbers, as dropout does in training: no two results agree"
        )
    return named


def _raised(error: Exception) -> str:
    return f"the problem raised {first_line(error)}"[:1000]


def _inspected(question: ProblemQuestion) -> ProblemInspection:
    problem = load(question)
    try:
        running = _Running(problem)
        outputs = running.outputs()
    except (*RAISED, NotExportable):
        if not problem.is_ambiguous:
            raise
        problem = load(question, single=True)
        running = _Running(problem)
        outputs = running.outputs()
    rows = list(zip(*(tensor.sizes for tensor in problem.tensors), strict=True))
    several = len(rows) > 1
    numbers = [*problem.hinted, *size_numbers(question.source, problem)]
    found = varied(rows) if several else _dimensions(problem, running, numbers)
    # An operator needs at least one dimension, even if none may change.
    named: Named = _named(problem, question.source, numbers, found or ((_first_place(problem.shapes),),))
    shapes = [{name: row[places[0][0]][places[0][1]] for name, places in named.items()} for row in rows]
    largest = {name: max(shape[name] for shape in shapes) for name in named}
    ranges: Ranges = find_ranges(named, largest, running.works) if found else {}
    empty = {name for name in named if any(shape[name] == 0 for shape in shapes)}
    ranges = {name: (0 if name in empty else low, high) for name, (low, high) in ranges.items()}
    timed = [shape for shape in shapes if 0 not in shape.values()] or shapes
    orders, (named, ranges, highs) = _with_orders(problem, running, named, shapes[0], ranges)
    shapes = [{name: shape[name] for name in named} for shape in shapes]
    timed = [{name: shape[name] for name in named} for shape in timed]
    try:
        made = _inputs(problem, named, orders, highs, published=question.published)
        inputs = tuple(_mutable(item) if item.name in running.changed else item for item in made)
    except Undrawable as error:
        raise ProblemUnfit(str(error)) from None
    return ProblemInspection(
        form=problem.form,
        target=problem.target,
        real=problem.real,
        inputs=inputs,
        scalars=tuple(_scalars(problem)),
        outputs=outputs,
        objects=problem.objects,
        example=problem.example,
        arguments=tuple(problem.texts.values()),
        keywords=dict(problem.keywords),
        parameters={tensor.name: tensor.parameter for tensor in problem.tensors if tensor.parameter is not None},
        shapes=tuple({json.dumps(shape): shape for shape in timed}.values()),
        ranges=_possible(inputs, largest, ranges),
        notes=(*_notes(problem), *_notes_on_inputs(inputs, orders), *running.notes()),
        default_tf32=running.default_tf32 and any(item.dtype == "float32" for item in inputs),
    )


def _scalars(problem: LoadedProblem) -> Iterator[Scalar]:
    for name, value in problem.arguments.items():
        if value is not None and not isinstance(value, torch.Tensor):
            yield Scalar.model_validate({"name": name, "dtype": type(value).__name__, "value": value})


class _Running:
    """Runner of the computation on tensors without data, of any sizes."""

    def __init__(self, problem: LoadedProblem) -> None:
        self._problem = problem
        self._operations, self._left = 1, MOST_OPERATIONS
        self.default_tf32 = self.indexes = False
        self.places: Set[str] = frozenset()
        self.changed: tuple[str, ...] = ()
        """Names of the tensors that it changes in place."""
        self._labels: list[str] = []

    def outputs(self) -> tuple[Output, ...]:
        """Return the outputs of `forward` at the published size: what it returns, then what it changes in place.

        Raises:
            NotExportable: If it calls an operation that references may not use.
            ProblemUnfit: If a result is no tensor of a known dtype.
        """
        results = self._run({}, guarded=True)
        if not results and not self.changed:
            raise ProblemUnfit("its results have no tensor")
        dtypes = [_dtype("its result", result) for result in results]
        taken = {tensor.name for tensor in self._problem.tensors} | set(self._problem.arguments)
        names: list[str] = []
        for index, label in enumerate(self._labels):
            name = spelled(label or ("y" if len(dtypes) == 1 else f"y{index}"), {*names, *dir(builtins)})
            names.append(f"{name}_out" if name in taken else name)  # An input's name means its own content.
        contents = {tensor.name: tensor.made for tensor in self._problem.tensors if tensor.name in self.changed}
        dtypes += [_dtype(f"'{name}'", made) for name, made in contents.items()]
        told = zip([*names, *contents], dtypes, strict=True)
        return tuple(Output.model_validate({"name": name, "dtype": dtype}) for name, dtype in told)

    def works(self, sizes: Mapping[Place, int]) -> bool:
        """Return True if `forward` returns non-empty tensors with these sizes of extents; False if it ran too often."""
        self._left -= self._operations
        if self._left < 0:
            return False
        try:
            return all(isinstance(result, torch.Tensor) and result.numel() for result in self._run(sizes))
        except RAISED:
            return False

    def notes(self) -> Iterator[str]:
        """Yield a note if sizes stay fixed because it would have run too often."""
        if self._left < 0:
            yield (
                f"Sizes without a range may vary all the same: {self._operations} operations, as in a loop over "
                "positions, are too many to try other sizes. Add those that vary to `[ranges]` in the spec."
            )

    def failure(self, values: Sequence[torch.Tensor]) -> str:
        """Return what `forward` raises with these values of all tensors; empty if it computes."""
        try:
            self._run({}, values=values)
        except RAISED as error:
            return first_line(error)
        return ""

    def _run(
        self, sizes: Mapping[Place, int], *, guarded: bool = False, values: Sequence[torch.Tensor] = ()
    ) -> tuple[torch.Tensor, ...]:
        problem = self._problem
        with ExitStack() as stack:
            if not values:
                stack.enter_context(FakeTensorMode())
            stack.enter_context(torch.no_grad())
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(without_fast_paths())
            stack.enter_context(WholeLayers())
            made = {tensor.name: value for tensor, value in zip(problem.tensors, values, strict=False)} or {
                tensor.name: torch.empty(_resized(index, tensor.sizes[0], sizes), dtype=tensor.made.dtype)
                for index, tensor in enumerate(problem.tensors)
            }
            guard = stack.enter_context(OperationGuard(made, changes=True)) if guarded else None
            stack.enter_context(ConstantReplay(problem.recorder))
            stack.enter_context(without_card())
            positional, keywords = problem.called_with(made)
            if problem.module is None:
                result = problem.call(*positional, **keywords)
            else:
                state = {tensor.parameter: made[tensor.name] for tensor in problem.tensors if tensor.parameter}
                result = torch.func.functional_call(problem.module, state, positional, keywords)
        results = problem.flatten(result)
        if guard is None:
            return results
        self._operations, self.default_tf32, self.indexes = guard.calls, guard.default_tf32, guard.indexes
        self.places = guard.places
        self.changed = tuple(name for name in made if name in guard.changed)
        named = zip(labels(result), results, strict=True)
        kept = [(label, each) for label, each in named if all(each is not made[name] for name in self.changed)]
        self._labels = [label for label, _ in kept]
        return tuple(each for _, each in kept)


def _resized(index: int, shape: Sequence[int], sizes: Mapping[Place, int]) -> list[int]:
    return [sizes.get((index, axis), size) for axis, size in enumerate(shape)]


def _dimensions(
    problem: LoadedProblem, running: "_Running", numbers: Sequence[SizeNumber]
) -> tuple[tuple[Place, ...], ...]:
    """Return the extents that may change; of hints, those with a name."""
    if not problem.hinted:
        arguments = [index for index, tensor in enumerate(problem.tensors) if tensor.parameter is None]
        alone = arguments if len(problem.tensors) > MANY_TENSORS else None
        found = find_dimensions(problem.shapes, running.works, numbers, _leading(problem), alone, arguments)
        written = {number.places for number in numbers}
        # The sizes of a module's weights are its architecture, unless its file has a number for them.
        given = (places for places in found if places in written or any(place[0] in arguments for place in places))
        return found if problem.form == "problem" else tuple(given)
    named = (number.places for number in problem.hinted)
    return tuple(
        places
        for places in named
        if running.works({(index, axis): other_size(problem.shapes[index][axis]) for index, axis in places})
    )


def _leading(problem: LoadedProblem) -> set[Place]:
    """Return the first extents of arguments, such as a batch: of two or more axes, and of vectors as long as these."""
    shapes = [tensor.sizes[0] for tensor in problem.tensors if tensor.parameter is None]
    sizes = {shape[0] for shape in shapes if len(shape) > 1}
    return {(index, 0) for index, shape in enumerate(shapes) if len(shape) > 1 or (shape and shape[0] in sizes)}


def _first_place(shapes: Sequence[Sequence[int]]) -> Place:
    return next(index for index, shape in enumerate(shapes) if shape), 0


def _named(
    problem: LoadedProblem, source: str, numbers: Sequence[SizeNumber], dimensions: Sequence[tuple[Place, ...]]
) -> dict[str, tuple[Place, ...]]:
    """Return the places of every dimension by its name, from the number of the file that changes it."""
    taken = {tensor.name for tensor in problem.tensors} | set(problem.arguments)
    unpacked = unpacked_names(source, problem)
    written = {number.places: number.name for number in numbers if number.name}
    named: dict[str, tuple[Place, ...]] = {}
    for places in dimensions:
        unpacked_name = next((unpacked[place] for place in places if place in unpacked), f"D{len(named)}")
        named[spelled(written.get(places, unpacked_name), taken | set(named))] = places
    return named


def _orders(problem: LoadedProblem, places: Set[str]) -> dict[str, ObservedOrder]:
    """Return the orders of integer arguments whose values are known, by name; only those that all examples have.

    Args:
        problem: The file's computation.
        places: Arguments that say where it writes.
    """
    found: dict[str, ObservedOrder] = {}
    for tensor in problem.tensors:
        orders = []
        for number, values in enumerate(tensor.values):
            others = [other.sizes[number] for other in problem.tensors if other is not tensor]
            extents = {size for sizes in others for size in sizes}
            extents |= {prod(sizes[:2]) for sizes in others if len(sizes) > 2}  # Slots of a cache in pages.
            orders.append(order_of(values, extents, are_places=tensor.name in places))
        first = orders[0] if orders else None
        known = first is not None and first.distribution is None and first.marker is None and tensor.origin.bounded
        if first is not None and not known:
            alike = all(other is not None and other.distribution is first.distribution for other in orders)
            found[tensor.name] = first if alike else replace(first, distribution=None)
    return found


_Bounded = tuple[Named, Ranges, Mapping[str, str]]
# Dimensions, their ranges, and what bounds integer arguments.


def _with_orders(
    problem: LoadedProblem, running: "_Running", named: Named, published: Mapping[str, int], ranges: Ranges
) -> tuple[dict[str, ObservedOrder], _Bounded]:
    """Return the orders of integer arguments, and what follows from them; what is sorted may be more than that."""
    orders = _orders(problem, running.places)
    try:
        return orders, _bounded(problem, running, named, published, ranges, orders)
    except ProblemUnfit:
        orders = {name: taken_for_starts(order, published.values()) for name, order in orders.items()}
        return orders, _bounded(problem, running, named, published, ranges, orders)


def _ends(problem: LoadedProblem, named: Named, orders: Mapping[str, ObservedOrder]) -> dict[str, int]:
    """Return the ends of integer arguments by name; none if one has no range, which the caller tells."""
    try:
        return {
            item.name: int(item.high)
            for item in _inputs(problem, named, orders, {}, published=True)
            if isinstance(item.high, float) and "float" not in item.dtype and item.high != BYTES.get(item.dtype)
        }
    except Undrawable:
        return {}


def _bounded(
    problem: LoadedProblem,
    running: "_Running",
    named: Named,
    published: Mapping[str, int],
    ranges: Ranges,
    orders: Mapping[str, ObservedOrder],
) -> _Bounded:
    """Return the dimensions, their ranges, and what bounds integer arguments, as drawn values show.

    Raises:
        ProblemUnfit: If the file fails with drawn values at its own sizes.
    """
    ends = _ends(problem, named, orders)
    failures: list[str] = []

    def runs(chosen: Mapping[str, tuple[Place, ...]], highs: Mapping[str, str], sizes: Mapping[str, int]) -> bool:
        dims = {**sizes, **{tensor.name: 1 for tensor in problem.tensors if tensor.optional}}
        try:
            inputs = tuple(_inputs(problem, chosen, orders, highs, published=True))
            if not all(_exist(item, dims) for item in inputs):
                return True  # No kernel will be asked for such sizes.
            operator = Operator(
                name="problem",
                entry="problem",
                reference="pass",
                inputs=inputs,
                outputs=(Output(name="result", dtype="float32"),),
                shapes=({"dims": {name: max(size, 1) for name, size in dims.items()}},),  # Timed shapes have work.
            )
            shape = Shape(dims=dims)
            values = (draw(operator, shape, name, 0) for name in ("shifted", "normal", "structured", "heavy"))
            failure = next(filter(None, map(running.failure, values)), "")
            failures.append(failure)
            return not failure
        except (Undrawable, ValidationError, *RAISED):
            return False

    if not ends and not running.indexes:
        return named, ranges, {}
    reach = {name: order.reach for name, order in orders.items()}
    bounds = {name: (end, max(end, reach.get(name, 0))) for name, end in ends.items()}
    found = bounds_of_indices(named, published, ranges, bounds, runs)
    # Sorted integers below a small size are often starts of segments by chance.
    unsure = not found[1] or any(order.distribution is Distribution.SORTED for order in orders.values())
    if unsure and not runs(found[0], found[2], published) and failures and failures[-1]:
        which = ", ".join(f"'{name}'" for name in ends) or "its integers"
        raise ProblemUnfit(f"with integers as drawn for {which} it raises {failures[-1]}: {SAY_WHAT_THEY_ARE}"[:1000])
    return found


def _exist(item: Input, dims: Mapping[str, int]) -> bool:
    """Return True if as many different indices exist as an input has."""
    if item.distribution is not Distribution.UNIQUE or item.high is None:
        return True
    return size_of(item.shape[-1], dims) <= (size_of(item.high, dims) if isinstance(item.high, str) else item.high)


def _possible(
    inputs: Sequence[Input], largest: Mapping[str, int], ranges: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return ranges at which the values of ordered inputs exist: with a segment, and room for different indices."""
    found = dict(ranges)
    for item in inputs:
        count = item.shape[-1] if item.shape else None
        if item.distribution is Distribution.UNIQUE and isinstance(count, int) and item.high in found:
            low, high = found[str(item.high)]
            found[str(item.high)] = (max(low, count), high)
        for name in names_in(item.shape[-1]) if item.distribution in ORDERED else ():
            low, high = found.get(name, (largest[name], largest[name]))
            if item.distribution is Distribution.OFFSETS and name in found:
                found[name] = (max(2, low), high)
            if item.distribution is Distribution.UNIQUE and isinstance(item.high, str) and item.high != name:
                among = found.get(item.high)
                found |= {item.high: (max(among[0], high), among[1])} if among else {}
            if item.distribution is Distribution.UNIQUE and item.high == high and name in found and low < high:
                found[name] = (low, high)
    return {name: (low, high) for name, (low, high) in found.items() if low < high}


ORDER_WORDS = {
    Distribution.SORTED: "is sorted in the examples",
    Distribution.OFFSETS: "holds offsets of segments, from 0 to {high}, in the examples",
    Distribution.ENDS: "holds ends of segments, up to {high}, in the examples",
    Distribution.STARTS: "holds starts of segments, from 0, of {high} elements in all, in the examples",
    Distribution.COUNTS: "holds lengths of segments, {high} in all, in the examples",
    Distribution.UNIQUE: "holds different indices below {high} in the examples",
}
"""Descriptions of orders that were recognised."""


def _mutable(item: Input) -> Input:
    """Return an input whose content after the call is a result; a weight that changes is no constant."""
    return item.model_copy(update={"mutable": True, "constant": False})


def _notes_on_inputs(inputs: Sequence[Input], orders: Mapping[str, ObservedOrder]) -> Iterator[str]:
    for item in inputs:
        if item.mutable:
            yield f"'{item.name}' is changed in place: its content after the call is a result, which nobody returns."
        if isinstance(item.high, str) and item.high.endswith("+1") and item.distribution not in ORDERED:
            yield f"Values of '{item.name}' are at most {item.high[:-2]}, as in the examples: kernels may rely on it."
            continue
        if item.name not in orders:
            continue
        if item.distribution in ORDERED and item.distribution is not None:
            said = ORDER_WORDS[item.distribution].format(high=_number(item.high))
            said += "" if item.marker is None else f", but for those that are {item.marker}"
            yield f"'{item.name}' {said}, and kernels may rely on it: its distribution is '{item.distribution}'."
        else:
            bounds = f"from {item.low or 0:g} to below {_number(item.high)}"
            bounds += "" if item.marker is None else f", and {item.marker} in place of some"
            yield f"Values of '{item.name}' are {bounds}, as in the examples."


def _number(bound: str | float | None) -> str:
    return f"{int(bound)}" if isinstance(bound, float) else str(bound)


def _inputs(
    problem: LoadedProblem,
    named: Mapping[str, tuple[Place, ...]],
    orders: Mapping[str, ObservedOrder],
    highs: Mapping[str, str],
    *,
    published: bool,
) -> Iterator[Input]:
    name_of = {place: name for name, places in named.items() for place in places}
    for index, tensor in enumerate(problem.tensors):
        parameter, dtype = tensor.parameter is not None, _dtype(f"'{tensor.name}'", tensor.made)
        if tensor.name in orders:
            fields = _ordered_fields(orders[tensor.name])
        else:
            fields = drawn(tensor.name, tensor.made.dtype, tensor.origin, parameter=parameter, published=published)
        if not tensor.made.dtype.is_floating_point and "high" in fields:
            fields["high"] = highs.get(tensor.name, fields["high"])
        shape = [name_of.get((index, axis), size) for axis, size in enumerate(tensor.sizes[0])]
        body = {"name": tensor.name, "shape": shape, "dtype": dtype, "constant": parameter, **fields}
        body |= {"optional": True} if tensor.optional else {}
        yield Input.model_validate_json(json.dumps(body))


def _ordered_fields(order: ObservedOrder) -> dict[str, object]:
    """Return the fields of an input with an order, or of one whose bounds only its values tell."""
    low = {"low": float(order.low)} if order.low else {}
    kind = {"distribution": order.distribution.value} if order.distribution else {}
    marker = {} if order.marker is None else {"marker": order.marker}
    return {**kind, **low, "high": float(order.high), **marker}


def _dtype(subject: str, tensor: object) -> str:
    if not isinstance(tensor, torch.Tensor):
        raise ProblemUnfit(f"{subject} is a {type(tensor).__name__}, not a tensor")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ProblemUnfit(f"{subject} is of dtype {name}: {remedy_for(name)}")
    return name


def _notes(problem: LoadedProblem) -> Iterator[str]:
    yield from problem.notes
    for tensor in problem.tensors:
        if tensor.optional:
            yield f"'{tensor.name}' is None in an example: kernels are judged with and without it."
    for tensor in problem.tensors:
        if tensor.origin.kind == "unknown" and tensor.made.dtype.is_floating_point:
            yield f"The origin of '{tensor.name}' is unknown; its values are drawn freely."
    module = problem.module
    if module is None:
        return
    given = {tensor.parameter for tensor in problem.tensors}
    for path, _ in module.named_buffers():
        if path in given:
            yield f"The module's buffer '{path}' becomes an input, as parameters do; its own values are not guaranteed."
        else:
            yield f"The module's buffer '{path}' is constant: the reference makes it, and so must a kernel."
    if any(isinstance(part, _NORMS) and part.training for part in module.modules()):
        yield "Batch norm uses the statistics of its batch, as in training; running statistics are not kept."
    if any(isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p for part in module.modules()):
        yield "Dropout is left out, as in inference: no two results of it agree."
