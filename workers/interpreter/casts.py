"""Casts of the builder: between integers and floats, and reinterpretation of bits."""

import numpy as np

from workers.interpreter.access import MemoryAccess
from workers.interpreter.faults import Array
from workers.interpreter.formats import (
    TensorValue,
    TritonType,
    decode,
    encode,
    format_of,
    round_to,
    truncate_to,
    truncate_to_integer,
)
from workers.interpreter.hints import apply
from workers.interpreter.undefined import is_beyond


def as_unsigned(data: Array) -> Array:
    """Reinterpret signed integers as unsigned; other types stay as they are."""
    return data.view(np.dtype(f"u{data.dtype.name}")) if data.dtype.kind == "i" else data


class Casts(MemoryAccess):
    """The part of the builder that changes types."""

    def create_int_cast(self, value: TensorValue, dtype: TritonType, signed: bool) -> TensorValue:
        """Cast between integers, with wraparound."""
        held = format_of(dtype).held
        return apply(lambda data: (data if signed else as_unsigned(data)).astype(held), dtype.scalar, value)

    def create_fp_trunc(self, value: TensorValue, dtype: TritonType) -> TensorValue:
        """Cast to a float, rounded to nearest even."""
        return self._counted(TensorValue(round_to(value.data, dtype), dtype.scalar))

    create_fp_ext = create_fp_trunc
    create_si_to_fp = create_fp_trunc

    def create_ui_to_fp(self, value: TensorValue, dtype: TritonType) -> TensorValue:
        """Cast an unsigned integer or a boolean."""
        return TensorValue(round_to(as_unsigned(value.data), dtype), dtype.scalar)

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
