"""The builder: computes with numpy, for many lanes, the instructions that Triton's front end asks it to emit.

Arrays have the axes (draws, programs, *block). A leading axis of 1 means that all lanes agree: values that do not
depend on the draw or the program, such as offsets and masks, are computed once. Method names are those that
`triton.language.semantic` calls; a missing one makes the kernel not interpretable, never wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from triton import language as tl

from workers.interpreter import inline
from workers.interpreter.access import MemoryAccess
from workers.interpreter.elementwise import require_outside
from workers.interpreter.faults import Array, NotInterpretable, OutOfBounds
from workers.interpreter.formats import (
    TensorValue,
    TritonType,
    constant,
    decode,
    encode,
    format_of,
    round_to,
    truncate_to,
    truncate_to_integer,
)
from workers.interpreter.hints import apply
from workers.interpreter.libdevice import FUNCTIONS, OF_FLOAT_BITS, reciprocal_root, through_torch
from workers.interpreter.products import multiply, unit_work
from workers.interpreter.undefined import UNDEFINED, is_beyond


@dataclass(frozen=True)
class BuilderOptions:
    """Options of the target that the front end reads. `bulk` is True if special units move descriptors' blocks."""

    bulk: bool = False
    debug: bool = False
    sanitize_overflow: bool = False
    arch: str | None = None
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    max_num_imprecise_acc_default: int = 0
    backend_name: str = "interpreter"
    takes_ptx: bool = False


def _unsigned(data: Array) -> Array:
    """Reinterpret signed integers as unsigned; other types stay as they are."""
    return data.view(np.dtype(f"u{data.dtype.name}")) if data.dtype.kind == "i" else data


def _signed(data: Array) -> Array:
    return data.view(np.dtype(data.dtype.name.removeprefix("u"))) if data.dtype.kind == "u" else data


def _divide_toward_zero(left: Array, right: Array) -> Array:
    return np.asarray((left - np.fmod(left, right)) // right)


def _shift_right_logical(left: Array, right: Array) -> Array:
    return np.asarray((_unsigned(left) >> _unsigned(right)).view(left.dtype))


def _shift_right_arithmetic(left: Array, right: Array) -> Array:
    return np.asarray((_signed(left) >> _signed(right)).view(left.dtype))


def _high_product(left: Array, right: Array) -> Array:
    if left.itemsize < 8:
        wide = _unsigned(left).astype(np.uint64) * _unsigned(right).astype(np.uint64)
        return (wide >> (8 * left.itemsize)).astype(left.dtype)
    halves = [(operand & 0xFFFFFFFF, operand >> 32) for operand in (_unsigned(left), _unsigned(right))]
    (low_a, high_a), (low_b, high_b) = halves
    middle = high_a * low_b + ((low_a * low_b) >> 32)
    crossed = low_a * high_b + (middle & 0xFFFFFFFF)
    return np.asarray((high_a * high_b + (middle >> 32) + (crossed >> 32)).view(left.dtype))


ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "precise_divf": np.divide,
    "frem": np.fmod, "add": np.add, "sub": np.subtract, "mul": np.multiply, "sdiv": _divide_toward_zero,
    "udiv": _divide_toward_zero, "srem": np.fmod, "urem": np.fmod, "shl": np.left_shift,
    "lshr": _shift_right_logical, "ashr": _shift_right_arithmetic, "umulhi": _high_product, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "minsi": np.minimum, "minui": np.minimum, "maxsi": np.maximum,
    "maxui": np.maximum, "minimumf": np.minimum, "maximumf": np.maximum, "minnumf": np.fmin, "maxnumf": np.fmax,
}  # fmt: skip
"""Instructions with two operands and a result of one type. `minnumf` and `maxnumf` drop a NaN, as on the card."""

OF_BITS: dict[Callable[..., Array], Callable[..., Array]] = {
    np.add: np.bitwise_xor, np.subtract: np.bitwise_xor, np.multiply: np.bitwise_and,
}  # fmt: skip
"""Arithmetic of one-bit integers, which wraps; numpy's of booleans does not."""

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "icmpSLE": np.less_equal, "icmpSLT": np.less, "icmpSGE": np.greater_equal, "icmpSGT": np.greater,
    "icmpULE": np.less_equal, "icmpULT": np.less, "icmpUGE": np.greater_equal, "icmpUGT": np.greater,
    "icmpEQ": np.equal, "icmpNE": np.not_equal, "fcmpOLT": np.less, "fcmpOGT": np.greater, "fcmpOLE": np.less_equal,
    "fcmpOGE": np.greater_equal, "fcmpOEQ": np.equal, "fcmpUNE": np.not_equal,
}  # fmt: skip
"""Instructions with two operands of one type and a boolean result."""

FUNCTIONS_OF_ONE: dict[str, Callable[[Array], Array]] = {
    "fabs": np.abs, "iabs": np.abs, "fneg": np.negative, "cos": np.cos, "sin": np.sin, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "precise_sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "erf": through_torch(torch.special.erf), "rsqrt": reciprocal_root,
}  # fmt: skip
"""Instructions with one operand and a result of its type."""

SPECIAL = frozenset((*FUNCTIONS_OF_ONE, "fdiv", "precise_divf", "frem")) - {"fabs", "iabs", "fneg", "floor", "ceil"}
"""Instructions that need a special unit or expand to several instructions."""


class Casts(MemoryAccess):
    """The part of the builder that changes types."""

    def create_int_cast(self, value: TensorValue, dtype: TritonType, signed: bool) -> TensorValue:
        """Cast between integers, with wraparound."""
        held = format_of(dtype).held
        return apply(lambda data: (data if signed else _unsigned(data)).astype(held), dtype.scalar, value)

    def create_fp_trunc(self, value: TensorValue, dtype: TritonType) -> TensorValue:
        """Cast to a float, rounded to nearest even."""
        return self._counted(TensorValue(round_to(value.data, dtype), dtype.scalar))

    create_fp_ext = create_fp_trunc
    create_si_to_fp = create_fp_trunc

    def create_ui_to_fp(self, value: TensorValue, dtype: TritonType) -> TensorValue:
        """Cast an unsigned integer or a boolean."""
        return TensorValue(round_to(_unsigned(value.data), dtype), dtype.scalar)

    def create_fp_to_si(self, value: TensorValue, dtype: TritonType) -> TensorValue:
        """Cast to an integer. Values out of range are undefined where the compiler may know that they are."""
        data, draws = truncate_to_integer(value.data, dtype), self.lanes.draws
        known = self.chance.known(is_beyond(value.data, dtype), draws)
        return TensorValue(self.chance.settle(data, known, draws), dtype.scalar)

    create_fp_to_ui = create_fp_to_si

    def create_fp_to_fp(self, value: TensorValue, dtype: TritonType, rounding: object) -> TensorValue:
        """Cast between floats with an explicit rounding mode."""
        toward_zero = rounding is not None and str(rounding).endswith("RTZ")
        data = truncate_to(value.data, dtype) if toward_zero else round_to(value.data, dtype)
        return TensorValue(data, dtype.scalar)

    def create_bitcast(self, value: TensorValue, dtype: TritonType) -> TensorValue:
        """Reinterpret bits as another type."""
        if value.dtype.is_ptr() or dtype.scalar.is_ptr():
            return apply(lambda data: data, dtype.scalar, value)

        def read(data: Array) -> Array:
            raw = encode(self.chance.settle_nan(data, self.lanes.draws), value.dtype)
            return decode(raw.view(format_of(dtype).stored), dtype)

        return apply(read, dtype.scalar, value)

    create_int_to_ptr = create_bitcast
    create_ptr_to_int = create_bitcast

    def _counted(self, value: TensorValue, special: bool = False) -> TensorValue:
        """Meter an elementwise operation by its result; every program performs an operation that all share."""
        if value.dtype.scalar.is_floating():
            meter = self.memory.meter
            done = value.data[0, 0].size * len(self.lanes.programs) * meter.weight
            meter.float_operations += done
            meter.special_operations += done * special
        return value


class Builder(Casts):
    """Executor of one instruction after another for the current lanes."""

    def __init__(self, options: BuilderOptions) -> None:
        super().__init__()
        self.options = options
        self.bulk = options.bulk
        self.codegen_fns = {"min_dot_size": lambda left, right: (1, 1, 1)}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return an instruction from the tables by the front end's name."""
        kind = name.removeprefix("create_")
        if kind in ARITHMETIC:
            return partial(self._compute, ARITHMETIC[kind], special=kind in SPECIAL, undefined=UNDEFINED.get(kind))
        if kind in COMPARISONS:
            return partial(self._compare, COMPARISONS[kind])
        if kind in FUNCTIONS_OF_ONE:
            return partial(self._compute, FUNCTIONS_OF_ONE[kind], special=kind in SPECIAL)
        if name.startswith("get_") and hasattr(tl, _CONSTANTS.get(name, "")):
            return partial(constant, dtype=getattr(tl, _CONSTANTS[name]))
        raise NotInterpretable(f"the interpreter does not know the instruction {kind}")

    def _compute(
        self,
        function: Callable[..., Array],
        *operands: TensorValue,
        special: bool,
        undefined: Callable[..., Array] | None = None,
    ) -> TensorValue:
        dtype, draws = operands[0].dtype, self.lanes.draws
        if operands[0].data.dtype == np.bool_:
            function = OF_BITS.get(function, function)

        def computed(*data: Array) -> Array:
            result = round_to(function(*data), dtype)
            return result if undefined is None else self.chance.settle(result, undefined(*data), draws)

        if dtype.scalar.is_floating():  # No hint applies to floats.
            return self._counted(TensorValue(computed(*(operand.data for operand in operands)), dtype), special)
        return self._counted(apply(computed, dtype, *operands), special)

    def _compare(self, function: Callable[..., Array], left: TensorValue, right: TensorValue) -> TensorValue:
        return apply(function, tl.int1, left, right)

    # Constants and the grid.

    def get_int64_ty(self) -> TritonType:
        """Return the type of block pointers' sizes and strides."""
        return tl.int64

    def get_null_value(self, dtype: TritonType) -> TensorValue:
        """Return zero."""
        return constant(0, dtype.scalar)

    def get_all_ones_value(self, dtype: TritonType) -> TensorValue:
        """Return a value with all bits set."""
        return constant(True if dtype.scalar == tl.int1 else -1, dtype.scalar)

    def create_get_program_id(self, axis: int) -> TensorValue:
        """Return the program's place in the grid."""
        require_outside("the program's place")
        return TensorValue(self.lanes.programs[None, :, axis].astype(np.int32), tl.int32)

    def create_get_num_programs(self, axis: int) -> TensorValue:
        """Return the grid's size."""
        return constant(self.grid[axis], tl.int32)

    def create_make_range(self, dtype: TritonType, start: int, stop: int) -> TensorValue:
        """`tl.arange`."""
        return TensorValue(np.arange(start, stop, dtype=np.int32)[None, None], tl.int32)

    # Several operands.

    def create_select(self, condition: TensorValue, left: TensorValue, right: TensorValue) -> TensorValue:
        """`tl.where`."""
        return self._counted(apply(np.where, left.dtype, condition, left, right))

    def create_fma(self, left: TensorValue, right: TensorValue, addend: TensorValue) -> TensorValue:
        """Multiply and add with a single rounding."""
        exact = left.data.astype(np.float64) * right.data + addend.data
        return self._counted(TensorValue(round_to(exact, addend.dtype), addend.dtype))

    def create_clampf(self, value: TensorValue, low: TensorValue, high: TensorValue, propagate: object) -> TensorValue:
        """Clamp; undefined where the bounds are in the wrong order. A NaN passes only if the kernel asks for it."""
        data = np.fmin(np.fmax(value.data, low.data), high.data)
        if str(propagate).endswith("ALL"):
            data = np.where(np.isnan(value.data), value.data, data)
        data = self.chance.settle(data, low.data > high.data, self.lanes.draws)
        return self._counted(TensorValue(round_to(data, value.dtype), value.dtype))

    def create_dot(
        self, left: TensorValue, right: TensorValue, addend: TensorValue, precision: object, imprecise: int
    ) -> TensorValue:
        """Multiply matrices in the accumulator's precision; `precision` may split float32 operands into parts."""
        single = addend.data.dtype == np.float32 and left.dtype == tl.float32
        parts = str(precision).rpartition(".")[2] if single else ""
        held = addend.data.dtype
        total = multiply(left.data.astype(held, copy=False), right.data.astype(held, copy=False), addend.data, parts)
        multiplied = total[0, 0].size * left.data.shape[-1] * len(self.lanes.programs)
        self.memory.meter.dot_operations += 2 * multiplied * unit_work(parts) * self.memory.meter.weight
        return TensorValue(round_to(total, addend.dtype), addend.dtype)

    def create_histogram(self, value: TensorValue, bins: int, mask: TensorValue | None) -> TensorValue:
        """Count the values 0 to bins - 1.

        Raises:
            OutOfBounds: If an unmasked value is negative or too large.
        """
        values, counted = np.broadcast_arrays(value.data, np.True_ if mask is None else mask.data)
        stray = counted & ((values < 0) | (values >= bins))
        if stray.any():
            reason = f"counts {values[stray][0]} in {bins} bins, and the result of tl.histogram is undefined then"
            raise OutOfBounds(reason)
        hits = counted[..., None] & (values[..., None] == np.arange(bins, dtype=values.dtype))
        return TensorValue(hits.sum(axis=2, dtype=np.int32), tl.int32)

    def create_gather(self, source: TensorValue, index: TensorValue, axis: int) -> TensorValue:
        """`tl.gather`.

        Raises:
            OutOfBounds: If an index is negative or too large.
        """
        size = source.data.shape[axis + 2]
        stray = (index.data < 0) | (index.data >= size)
        if stray.any():
            found = index.data[stray].reshape(-1)[0]
            raise OutOfBounds(f"gathers element {found} of {size}, and the result of tl.gather is undefined then")
        leading = np.broadcast_shapes(source.data.shape[:2], index.data.shape[:2])
        data, places = (np.broadcast_to(v.data, leading + v.data.shape[2:]) for v in (source, index))
        return TensorValue(np.take_along_axis(data, places.astype(np.int64), axis=axis + 2), source.dtype)

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, operands: Sequence[TensorValue], dtype: TritonType, pure: bool
    ) -> TensorValue:
        """Call a function of libdevice.

        Raises:
            NotInterpretable: If `FUNCTIONS` lacks it.
        """
        if symbol not in FUNCTIONS:
            raise NotInterpretable(f"the interpreter does not know the libdevice function {symbol}")
        given = [operand.data for operand in operands]
        if symbol in OF_FLOAT_BITS:
            given = [self.chance.settle_nan(data, self.lanes.draws) for data in given]
        data = round_to(FUNCTIONS[symbol](*given), dtype)
        return self._counted(TensorValue(data, dtype.scalar), special=True)

    def create_inline_asm(
        self,
        text: str,
        constraints: str,
        operands: Sequence[TensorValue],
        types: Sequence[TritonType],
        pure: bool,
        pack: int,
    ) -> inline.InlineResults:
        """Execute a known PTX instruction.

        Raises:
            NotInterpretable: If the instruction is unknown, or the target has no PTX.
        """
        if not self.options.takes_ptx:
            raise NotInterpretable("the interpreter does not know this target's inline assembly")
        value, is_special = inline.compute(text, constraints, operands, types, pack)
        return inline.InlineResults((self._counted(value, is_special),))

    # Shapes.

    def create_splat(self, dtype: TritonType, value: TensorValue) -> TensorValue:
        """Fill a block with one value."""
        raised = apply(lambda data: data.reshape(data.shape[:2] + (1,) * len(dtype.shape)), value.dtype, value)
        return self.create_broadcast(raised, dtype.shape)

    def create_unsplat(self, value: TensorValue) -> TensorValue:
        """Return the only element of a block."""
        return apply(lambda data: data.reshape(data.shape[:2]), value.dtype, value)

    def create_broadcast(self, value: TensorValue, shape: Sequence[int]) -> TensorValue:
        """Repeat axes of size 1."""
        return apply(lambda data: np.broadcast_to(data, data.shape[:2] + tuple(shape)), value.dtype, value)

    def create_expand_dims(self, value: TensorValue, axis: int) -> TensorValue:
        """Insert an axis of size 1."""
        return apply(lambda data: np.expand_dims(data, axis + 2), value.dtype, value)

    def create_reshape(self, value: TensorValue, shape: Sequence[int], reorder: bool) -> TensorValue:
        """Change the shape; also shuffle the elements if the kernel declares that their order does not matter."""

        def reshaped(data: Array) -> Array:
            ordered = self.chance.shuffle(data, self.lanes.draws) if reorder else data
            return ordered.reshape(ordered.shape[:2] + tuple(shape))

        return apply(reshaped, value.dtype, value)

    def create_trans(self, value: TensorValue, order: Sequence[int]) -> TensorValue:
        """Permute axes."""
        return apply(lambda data: np.transpose(data, (0, 1, *(axis + 2 for axis in order))), value.dtype, value)

    def create_cat(self, left: TensorValue, right: TensorValue) -> TensorValue:
        """Concatenate along the first axis of the block, in any order."""
        joined = np.concatenate(_level(left.data, right.data), axis=2)
        return TensorValue(self.chance.shuffle(joined, self.lanes.draws), left.dtype)

    def create_join(self, left: TensorValue, right: TensorValue) -> TensorValue:
        """Stack along a new last axis."""
        return TensorValue(np.stack(_level(left.data, right.data), axis=-1), left.dtype)

    def create_split(self, value: TensorValue) -> tuple[TensorValue, TensorValue]:
        """Split the last axis, of size 2."""
        return TensorValue(value.data[..., 0], value.dtype), TensorValue(value.data[..., 1], value.dtype)

    # Instructions without an effect on results.

    def create_assume(self, condition: TensorValue) -> None:
        """Check a `tl.assume`: compiled code is correct only if it holds.

        Raises:
            NotInterpretable: If it does not hold.
        """
        if not condition.data.all():
            raise NotInterpretable(
                "the kernel assumes something that does not hold, so its compiled code is undefined; remove the "
                "tl.assume, or assume only facts that hold at every shape"
            )

    def create_print(self, *ignored: object) -> None:
        """Do nothing."""

    create_assert = create_print

    def create_barrier(self, *ignored: object) -> None:
        """Order the program's stores before its loads: `tl.debug_barrier`."""
        self.remarks.begin()


def _level(left: Array, right: Array) -> list[Array]:
    """Broadcast both arrays to the same leading axes."""
    leading = np.broadcast_shapes(left.shape[:2], right.shape[:2])
    return [np.broadcast_to(data, leading + data.shape[2:]) for data in (left, right)]


_CONSTANTS = {f"get_{name}": name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")} | {
    "get_int1": "int1", "get_uint64": "uint64", "get_fp16": "float16", "get_bf16": "bfloat16", "get_fp32": "float32",
    "get_fp64": "float64",
}  # fmt: skip
"""Triton's names of scalar types, by the method that makes such a constant."""
