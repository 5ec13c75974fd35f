"""Inline assembly: single PTX instructions that calculate, each element by itself. No other text is known.

A text counts only in the one form that the table gives its instruction, with the constraints that belong to it. So
there is nothing that it could do besides: no second statement, other operand, memory, predicate or comment.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from triton import language as tl

from workers.interpreter.faults import Array, NotInterpretable
from workers.interpreter.formats import TensorValue, TritonType, round_to, round_to_tf32

_TEXT = re.compile(
    r"[ \t\n]*(?P<name>[a-z0-9]+(?:\.[a-zA-Z0-9]+)*)[ \t]+(?P<operands>\$[0-9](?:,[ \t]*\$[0-9])*);[ \t\n]*"
)
_COMMA = re.compile(r",[ \t]*")
_EXCERPT_CHARS = 100
# Longest part of a text that a reason quotes.
_TINY = np.finfo(np.float32).tiny
_TURNS = np.float32(1 / (2 * np.pi))


@dataclass(frozen=True)
class InlineInstruction:
    """One instruction of PTX.

    Attributes:
        function: What it computes, of float32 arrays.
        operands: How many it reads.
        special: Whether a special unit does it.
        dtype: What it reads and writes.
        pack: Elements in a register.
    """

    function: Callable[..., Array]
    operands: int = 1
    special: bool = True
    dtype: TritonType = tl.float32
    pack: int = 1

    @property
    def constraints(self) -> tuple[str, ...]:
        """The only ones that are known: registers that are written, then those that are read.

        Those of 32 bits without a type hold float32 as well.
        """
        registers = ("f", "r") if self.dtype == tl.float32 else ("r",)
        return tuple(",".join([f"={register}", *[register] * self.operands]) for register in registers)


@dataclass(frozen=True)
class InlineResults:
    """What the front end gets of an instruction with several results."""

    values: tuple[TensorValue, ...]

    def get_result(self, index: int) -> TensorValue:
        """One of them."""
        return self.values[index]


def _tanh(data: Array) -> Array:
    """As coarse as PTX allows: 2^-11 of the result."""
    return round_to_tf32(np.tanh(data))


def _of_turns(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Sine and cosine as the unit takes them, in turns: what float32 loses of large angles is lost."""

    def call(data: Array) -> Array:
        result: Array = function((data * _TURNS).astype(np.float64) * (2 * np.pi))
        return result

    return call


def _fma(left: Array, right: Array, addend: Array) -> Array:
    result: Array = left.astype(np.float64) * right + addend
    return result


def _flush(data: Array) -> Array:
    return np.where(np.abs(data) < _TINY, np.copysign(np.float32(0), data), data)


def _flushing(instruction: InlineInstruction) -> InlineInstruction:
    """The same with `.ftz`: numbers below the normal ones are zeros, read or written."""

    def call(*operands: Array) -> Array:
        return _flush(round_to(instruction.function(*map(_flush, operands)), tl.float32))

    return InlineInstruction(call, instruction.operands, instruction.special)


_BOTH = {
    "ex2.approx.f32": InlineInstruction(np.exp2), "lg2.approx.f32": InlineInstruction(np.log2),
    "rsqrt.approx.f32": InlineInstruction(lambda x: 1 / np.sqrt(x)), "rcp.approx.f32": InlineInstruction(lambda x: 1 / x),
    "sqrt.approx.f32": InlineInstruction(np.sqrt), "sin.approx.f32": InlineInstruction(_of_turns(np.sin)),
    "cos.approx.f32": InlineInstruction(_of_turns(np.cos)), "fma.rn.f32": InlineInstruction(_fma, 3, special=False),
    "add.f32": InlineInstruction(np.add, 2, special=False), "sub.f32": InlineInstruction(np.subtract, 2, special=False),
    "mul.f32": InlineInstruction(np.multiply, 2, special=False), "max.f32": InlineInstruction(np.fmax, 2, special=False),
    "min.f32": InlineInstruction(np.fmin, 2, special=False),
}  # fmt: skip
# Those that there are with `.ftz`, too.
INSTRUCTIONS: dict[str, InlineInstruction] = {
    **_BOTH,
    **{name.replace(".f32", ".ftz.f32"): _flushing(instruction) for name, instruction in _BOTH.items()},
    "tanh.approx.f32": InlineInstruction(_tanh),
    "tanh.approx.f16x2": InlineInstruction(np.tanh, dtype=tl.float16, pack=2),
    "tanh.approx.bf16x2": InlineInstruction(np.tanh, dtype=tl.bfloat16, pack=2),
}
"""Instructions by name (PTX ISA 8, floating-point instructions). Approximations are computed exactly
where their error is about that of float32, as the interpreter does elsewhere."""

_KNOWN = (
    f"{', '.join(_BOTH)}, these with .ftz, and {', '.join(name for name in INSTRUCTIONS if name.startswith('tanh'))}"
)
# What a reason tells of the table.


def compute(
    text: object, constraints: object, operands: Sequence[TensorValue], results: Sequence[TritonType], pack: object
) -> tuple[TensorValue, bool]:
    """The result of a text of inline assembly, and whether a special unit computes it.

    Raises:
        NotInterpretable: If the text is not one known instruction in its own form.
    """
    parts = _TEXT.fullmatch(str(text))
    name = parts["name"] if parts else ""
    if parts is None or name not in INSTRUCTIONS:
        raise NotInterpretable(
            f"the interpreter does not know the inline assembly `{_excerpt(text)}`; it knows texts of one instruction "
            f"only: {_KNOWN}"
        )
    instruction = INSTRUCTIONS[name]
    places = [f"${place}" for place in range(instruction.operands + 1)]
    scalars = {operand.dtype.scalar for operand in operands} | {result.scalar for result in results}
    said = (_COMMA.split(parts["operands"]), len(results), scalars, pack)
    known = (places, 1, {instruction.dtype}, instruction.pack)
    if said != known or constraints not in instruction.constraints:
        raise NotInterpretable(
            f"the interpreter knows {name} only as `{name} {', '.join(places)};` with constraints "
            f"'{instruction.constraints[0]}', pack={instruction.pack} and {instruction.dtype} throughout, not as "
            f"`{_excerpt(text)}` with '{_excerpt(constraints)}', pack={pack} and {', '.join(sorted(map(str, scalars)))}"
        )
    data = instruction.function(*(operand.data for operand in operands))
    return TensorValue(round_to(data, instruction.dtype), instruction.dtype), instruction.special


def _excerpt(said: object) -> str:
    return " ".join(str(said).split())[:_EXCERPT_CHARS]
