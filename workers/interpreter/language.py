"""The front end: binds `triton.language` to the builder, permanently, in a process that does nothing else.

Triton's builtins take the builder as a hidden argument that only its compiler passes; here they get ours. Jit
functions of Triton's standard library are translated to Python functions like the candidate's.
"""

import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce, wraps
from types import ModuleType
from typing import NoReturn

import numpy as np
import triton.language.core as core
import triton.language.extra.libdevice as portable_libdevice
import triton.language.math
import triton.language.random
import triton.language.standard
from triton import language as tl
from triton.language.extra.cuda import libdevice
from triton.language.semantic import TritonSemantic

from workers.interpreter import reductions
from workers.interpreter.builder import Builder, BuilderOptions
from workers.interpreter.conditions import agreed, connect, continue_loop, decide, is_carried, negate, nested_names
from workers.interpreter.elementwise import call_elementwise
from workers.interpreter.faults import Array, Divergence, NotInterpretable
from workers.interpreter.formats import TensorValue, TritonType, format_of
from workers.interpreter.hints import give
from workers.interpreter.translation import library_codes, translate_library

LIBRARIES = (triton.language.standard, triton.language.math, triton.language.random)
"""Triton's modules that are written in Triton."""
_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift",
    "lt", "le", "gt", "ge", "eq", "ne",
)  # fmt: skip
_RANGE, _STATIC_RANGE = core.range, core.static_range
_OPERATORS = {f"__{side}{name}__" for name in _BINARY for side in ("", "r")}


def warm_up() -> None:
    """Do the work that does not depend on the candidate, before children are forked."""
    for library in LIBRARIES:
        library_codes(library)


@dataclass(frozen=True)
class FrontEnd:
    """The bound front end.

    Attributes:
        builder: Executes the instructions of kernels.
        provided: Names that translated functions see in place of Python's own.
        replaced: Replacements of Triton's objects, by `id`.
    """

    builder: Builder
    provided: dict[str, object]
    replaced: dict[int, object]


def bind(options: BuilderOptions) -> FrontEnd:
    """Bind `triton.language` to a new builder. The process cannot compile kernels afterwards."""
    builder = Builder(options)
    semantic = TritonSemantic(builder)
    provided = {
        **_PROVIDED,
        "__carry__": partial(_carry, semantic),
        "__annotated__": partial(_annotate, semantic),
        "__choose__": partial(_choose, semantic),
        "__continue__": partial(continue_loop, builder),
        "range": partial(_plain_range, semantic),
    }
    for kind in (core.dtype, core.block_type, core.pointer_type):
        kind.to_ir = lambda self, builder: self
    replaced = {id(getattr(core, name)): value for name, value in _REPLACED.items() if hasattr(core, name)}
    replaced[id(core.range)] = partial(_range, semantic)
    for owner in (core, libdevice, *LIBRARIES):
        replaced |= _bound_builtins(owner, semantic)
    replaced[id(core.map_elementwise)] = partial(_map_elementwise, semantic)
    _substitute(replaced)
    for library in LIBRARIES:
        functions = translate_library(library, provided)
        own: dict[int, object] = {id(getattr(library, name)): function for name, function in functions.items()}
        _substitute(own)
        replaced |= own
        for name in functions.keys() & vars(core.tensor).keys():
            setattr(core.tensor, name, functions[name])
    for owner in (core.tensor, core.tensor_descriptor_base, core.constexpr):
        for name, member in inspect.getmembers(owner, _takes_semantic):
            setattr(owner, name, _bound(member, semantic))
    _replace_tensor_members()
    _yield_to_tensors()
    for name, value in list(vars(portable_libdevice).items()):
        if hasattr(libdevice, name):
            replaced |= {id(value): getattr(libdevice, name)} if inspect.isfunction(value) else {}
            setattr(portable_libdevice, name, getattr(libdevice, name))
    return FrontEnd(builder, provided, replaced)


def _takes_semantic(member: object) -> bool:
    """True if the compiler passes its hidden argument: to builtins and to methods from `triton.language.math`."""
    if core.is_builtin(member):
        return True
    return inspect.isfunction(member) and "_semantic" in inspect.signature(member).parameters


def _bound_builtins(owner: ModuleType, semantic: TritonSemantic) -> dict[int, object]:
    members = inspect.getmembers(owner, core.is_builtin)
    return {id(member): _bound(member, semantic) for name, member in members if name not in _REPLACED}


def _bound(builtin: Callable[..., object], semantic: TritonSemantic) -> Callable[..., object]:
    @wraps(builtin)
    def call(*args: object, **kwargs: object) -> object:
        kwargs["_semantic"] = semantic
        return builtin(*args, **kwargs)

    return call


def _substitute(replaced: dict[int, object]) -> None:
    """Replace the old functions in Triton's modules by the new ones."""
    for module in (tl, core, libdevice, *LIBRARIES):
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                setattr(module, name, replaced[id(value)])


def _replace_tensor_members() -> None:
    core.tensor.__bool__ = lambda self: True  # The front end tests so if an argument was given.
    core.tensor.__index__ = lambda self: int(agreed(self))
    core.tensor.T = property(lambda self: tl.trans(self))
    core.tensor.reduce = reductions.reduce
    core.tensor.associative_scan = reductions.scan


def _yield_to_tensors() -> None:
    """Let tensors handle operations with compile-time numbers, which would wrap them; so do compiled kernels."""
    for name in _OPERATORS & vars(core.constexpr).keys():
        setattr(core.constexpr, name, _yielding(getattr(core.constexpr, name)))


def _yielding(method: Callable[[object, object], object]) -> Callable[[object, object], object]:
    @wraps(method)
    def call(number: object, other: object) -> object:
        return NotImplemented if isinstance(other, tl.tensor) else method(number, other)

    return call


def _choose(semantic: TritonSemantic, condition: object, yes: Callable[[], object], no: Callable[[], object]) -> object:
    """Evaluate `yes if condition else no`: a scalar of the device if the device decides."""
    value = yes() if decide(condition) else no()
    return _carry(semantic, value) if isinstance(core._unwrap_if_constexpr(condition), tl.tensor) else value


def _annotate(semantic: TritonSemantic, annotation: object, value: Callable[[], object]) -> object:
    """Evaluate `name: annotation = value`. The compiler evaluates it twice and takes the second, unless it is constant.

    Its traffic is counted once, because the compiler merges equal loads.
    """
    first = value()
    if core._unwrap_if_constexpr(annotation) is not core.constexpr:
        meter = semantic.builder.memory.meter
        before, meter.weight = meter.weight, 0
        second = _carry(semantic, value())
        meter.weight = before
        return second
    plain = core._unwrap_if_constexpr(first)
    if isinstance(plain, tl.tensor):
        raise NotInterpretable("tl.constexpr annotates a value that is unknown at compile time; remove the annotation")
    return plain


def _same(first: object, second: object) -> bool:
    return core._unwrap_if_constexpr(first) is core._unwrap_if_constexpr(second)


def _value(owner: object) -> object:
    plain = core._unwrap_if_constexpr(owner)
    return plain if isinstance(plain, bool | int | float | str | tuple | None) else getattr(plain, "value")  # noqa: B009


def _apply(function: Callable[..., object], named: Mapping[str, object], values: Sequence[object]) -> object:
    return function(*values, **named)


def _result(value: object) -> object:
    """Check one of several results of a function, which the compiler makes scalars of one type."""
    if not is_carried(value):
        raise NotInterpretable(
            "a function that returns in several places returns something else than tensors, such as a number, or a "
            "size of 1, which is a constant: assign in the branches, and return once at the end"
        )
    return value


def _plain_range(semantic: TritonSemantic, *bounds: object) -> Iterator[TritonType]:
    return _range(semantic, *bounds[:3])


def _only_bound(counting: object, bound: Callable[[], object]) -> object:
    """Evaluate the bound of a loop by the name `range`, which a module may give to `tl.range`, too."""
    first = bound()
    return bound() if getattr(counting, "func", None) is _plain_range else first


def _range(semantic: TritonSemantic, *bounds: object, **hints: object) -> Iterator[TritonType]:
    """Iterate over `range` or `tl.range`: the induction variable is a tensor, as in compiled kernels.

    If only the traffic matters, a long loop takes a random choice of iterations, each of which counts for several.
    """
    loop = _RANGE(*bounds, **hints)
    turns = _turns(semantic, [core._unwrap_if_constexpr(each) for each in (loop.start, loop.end, loop.step)])
    builder: Builder = semantic.builder
    if builder.loop_sample is None:
        yield from map(turns.variable, range(turns.count))
        return
    before = builder.memory.meter.weight
    for number, share in builder.loop_sample.turns(turns.count):
        builder.memory.meter.weight = before * share
        yield turns.variable(number)
    builder.memory.meter.weight = before


@dataclass(frozen=True)
class _Turns:
    """Iterations of a loop, as many in all lanes.

    Attributes:
        count: Number of iterations.
        start: First value of the induction variable, (draws or 1, programs or 1), int64.
        stride: Distance between its values, in the same form.
        dtype: Its type.
    """

    count: int
    start: Array
    stride: Array
    dtype: TritonType

    def variable(self, number: int) -> TritonType:
        """Return the induction variable in one iteration."""
        values = (self.start + self.stride * number).astype(format_of(self.dtype).held)
        return tl.tensor(TensorValue(values, self.dtype), self.dtype)


def _turns(semantic: TritonSemantic, bounds: Sequence[TritonType]) -> _Turns:
    """Return the iterations of a loop. Programs that walk over rows or tiles start at different ones.

    Raises:
        Divergence: If lanes take different numbers of iterations.
        NotInterpretable: If a compiled loop would differ: it counts up, in signed numbers of that dtype.
    """
    given = [semantic.to_tensor(bound) for bound in bounds]
    dtype = reduce(semantic.integer_promote_impl, (number.dtype for number in given))
    start, stop, stride = (_extended(number, dtype) for number in given)
    slowest = stride.min()
    if slowest <= 0 and (isinstance(bounds[2], tl.tensor) or slowest == 0):
        raise NotInterpretable(
            f"a loop's step is {slowest} at run time, and compiled loops count up only; make it a tl.constexpr, or "
            "count up and compute the index"
        )
    counts = np.maximum((stop - start + stride - np.sign(stride)) // stride, 0)
    after = np.where(counts > 0, start + counts * stride, stop)
    limit = 1 << (dtype.primitive_bitwidth - 1)
    if any(each.min() < -limit or each.max() >= limit for each in (start, stop, after)):
        raise NotInterpretable(f"a loop from {start.flat[0]} to {stop.flat[0]} overflows {dtype}; use a wider type")
    if counts.min() != counts.max():
        raise Divergence(np.unique(counts, return_inverse=True)[1].reshape(counts.shape))
    taken = np.where(counts > 0, stride, 0)
    return _Turns(int(counts.flat[0]), start.astype(np.int64), taken.astype(np.int64), dtype)


def _extended(number: TritonType, dtype: TritonType) -> Array:
    """Extend a loop's bound to the loop's type, as signed if that type is: numbers of any size, in the lanes' form."""
    data = number.handle.data
    if data.ndim != 2:
        agreed(number)
    width = number.dtype.primitive_bitwidth
    bits: Array = data.astype(object) & ((1 << width) - 1)
    is_negative = dtype.is_int_signed() & (bits >> (width - 1) > 0)
    return np.where(is_negative, bits - (1 << width), bits)


def _static_range(*bounds: object, **step: object) -> Iterable[int]:
    loop = _STATIC_RANGE(*map(tl.constexpr, bounds), **{name: tl.constexpr(value) for name, value in step.items()})
    return range(*(operator.index(number.value) for number in (loop.start, loop.end, loop.step)))


def _is_lost(counting: object) -> bool:
    """True if the loop variable is undefined after the loop, because the device counts it."""
    return not isinstance(counting, range)


def _fold(name: str, plain: Callable[..., object], *values: object) -> object:
    """Evaluate Python's `min` and `max` inside a kernel."""
    numbers = [core._unwrap_if_constexpr(value) for value in values]
    if not any(isinstance(number, tl.tensor) for number in numbers):
        return plain(*numbers)
    return reduce(getattr(tl, name), numbers)


def _carry(semantic: TritonSemantic, value: object) -> object:
    """Convert an assigned value: numbers become scalars of the device, as in compiled kernels."""
    if type(value) is tuple or isinstance(value, core.tuple):
        return tuple(_carry(semantic, item) for item in value)
    plain = core._unwrap_if_constexpr(value)
    if callable(plain):
        raise NotInterpretable("a kernel gives a function another name")
    return semantic.to_tensor(plain, False)


def _map_elementwise(
    semantic: TritonSemantic, function: Callable[..., object], *tensors: object, pack: int = 1
) -> object:
    if core._unwrap_if_constexpr(pack) != 1:
        raise NotInterpretable("the interpreter does not know map_elementwise with pack over 1")
    return call_elementwise(function, semantic.broadcast_tensors(*tensors))


def _unknown(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise NotInterpretable(f"the interpreter does not know {name}; judge the candidate on a card instead")

    return refuse


def _first(value: object, *hints: object, **options: object) -> object:
    return value


def _hint(kind: str) -> Callable[..., object]:
    def hint(input: object, values: object) -> object:
        plain = core._unwrap_if_constexpr(values)
        numbers = [core._unwrap_if_constexpr(number) for number in (plain if isinstance(plain, _SEVERAL) else [plain])]
        if isinstance(input, tl.tensor):
            give(input.handle, kind, numbers, sys._getframe(1).f_lineno)
        return input

    return hint


_SEVERAL = (list, tuple, tl.tuple)


def _ignore(*args: object, **kwargs: object) -> None:
    """Ignore prints and assertions; the compiler has executed those at compile time."""


_REPLACED: dict[str, object] = {
    "reduce": reductions.reduce,
    "associative_scan": reductions.scan,
    "static_range": _static_range,
    "dot_scaled": _unknown("dot_scaled"),
    "condition": _first,
    **{name: _hint(name) for name in ("multiple_of", "max_contiguous", "max_constancy")},
    **dict.fromkeys(("static_assert", "static_print", "device_print", "device_assert"), _ignore),
}
"""Replacements for members of `triton.language.core` that need more than our builder."""
_PROVIDED: dict[str, object] = {
    "__locals__": locals,
    "__same__": _same,
    "__value__": _value,
    "__apply__": _apply,
    "__result__": _result,
    "__ignore__": _ignore,
    "__decide__": decide,
    "__there__": nested_names,
    "__both__": partial(connect, "logical_and", False),
    "__either__": partial(connect, "logical_or", True),
    "__not__": negate,
    "__bound__": _only_bound,
    "__lost__": _is_lost,
    "min": partial(_fold, "minimum", min),
    "max": partial(_fold, "maximum", max),
    "print": _ignore,
}
"""Names that translated functions see in place of Python's own and that need no builder."""
