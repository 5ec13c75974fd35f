"""Inline assembly: single elementwise PTX instructions. No other text is known.

A text must have exactly the form and the constraints that the table gives its instruction. So it can have no second
statement, other operand, memory access, predicate or comment.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from triton import language as tl

from workers.interpreter.faults import Array, NotInterpretable
from workers.interpreter.formats import TensorValue, TritonType, round_to, round_to_tf32
from workers.interpreter.libdevice import fma, reciprocal_root

_TEXT = re.compile(
    r"[ \t\n]*(?P<name>[a-z0-9]+(?:\.[a-zA-Z0-9]+)*)[ \t]+(?P<operands>\$[0-9](?:,[ \t]*\$[0-9])*);[ \t\n]*"
)
_COMMA = re.compile(r",[ \t]*")
_EXCERPT_CHARS = 100
# Maximum length of a quotation in a reason.
_TINY = np.finfo(np.float32).tiny
_TURNS = np.float32(1 / (2 * np.pi))


@dataclass(frozen=True)
class InlineInstruction:
    """One instruction of PTX.

    Attributes:
        function: Its function of float32 arrays.
        operands: Number of operands that it reads.
        special: True if a special unit computes it.
        dtype: Dtype of operands and result.
        pack: Elements per register.
    """

    function: Callable[..., Array]
    operands: int = 1
    special: bool = True
    dtype: TritonType = tl.float32
    pack: int = 1

    @property
    def constraints(self) -> tuple[str, ...]:
        """The known constraints: the written register, then those read. Untyped 32-bit registers hold float32 too."""
        registers = ("f", "r") if self.dtype == tl.float32 else ("r",)
        return tuple(",".join([f"={register}", *[register] * self.operands]) for register in registers)


@dataclass(frozen=True)
class InlineResults:
    """Results of an instruction, as the front end expects them."""

    values: tuple[TensorValue, ...]

    def get_result(self, index: int) -> TensorValue:
        """Return one of them."""
        return self.values[index]


def _tanh(data: Array) -> Array:
    """Compute tanh as coarsely as PTX allows: 2^-11 of the result."""
    return round_to_tf32(np.tanh(data))


def _of_turns(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute sine or cosine of an angle in turns, as the unit does: large angles lose float32 precision."""

    def call(data: Array) -> Array:
        return np.asarray(function((data * _TURNS).astype(np.float64) * (2 * np.pi)))

    return call


def _flush(data: Array) -> Array:
    return np.where(np.abs(data) < _TINY, np.copysign(np.float32(0), data), data)


def _flushing(instruction: InlineInstruction) -> InlineInstruction:
    """Return the variant with `.ftz`: subnormal operands and results are zeros."""

    def call(*operands: Array) -> Array:
        return _flush(round_to(instruction.function(*map(_flush, operands)), tl.float32))

    return InlineInstruction(call, instruction.operands, instruction.special)


_BOTH = {
    "ex2.approx.f32": InlineInstruction(np.exp2),
    "lg2.approx.f32": InlineInstruction(np.log2),
    "rsqrt.approx.f32": InlineInstruction(reciprocal_root),
    "rcp.approx.f32": InlineInstruction(lambda x: 1 / x),
    "sqrt.approx.f32": InlineInstruction(np.sqrt),
    "sin.approx.f32": InlineInstruction(_of_turns(np.sin)),
    "cos.approx.f32": InlineInstruction(_of_turns(np.cos)),
    "fma.rn.f32": InlineInstruction(fma, 3, special=False),
    "add.f32": InlineInstruction(np.add, 2, special=False),
    "sub.f32": InlineInstruction(np.subtract, 2, special=False),
    "mul.f32": InlineInstruction(np.multiply, 2, special=False),
    "max.f32": InlineInstruction(np.fmax, 2, special=False),
    "min.f32": InlineInstruction(np.fmin, 2, special=False),
}
# Instructions that also exist with `.ftz`.
INSTRUCTIONS: dict[str, InlineInstruction] = {
    **_BOTH,
    **{name.replace(".f32", ".ftz.f32"): _flushing(instruction) for name, instruction in _BOTH.items()},
    "tanh.approx.f32": InlineInstruction(_tanh),
    "tanh.approx.f16x2": InlineInstruction(np.tanh, dtype=tl.float16, pack=2),
    "tanh.approx.bf16x2": InlineInstruction(np.tanh, dtype=tl.bfloat16, pack=2),
}
"""Instructions by name (PTX ISA 8, floating-point instructions). Approximations are computed exactly if their error is
about that of float32, as elsewhere in the interpreter."""

_KNOWN = (
    f"{', '.join(_BOTH)}, these with .ftz, and {', '.join(name for name in INSTRUCTIONS if name.startswith('tanh'))}"
)


def compute(
    text: object, constraints: object, operands: Sequence[TensorValue], results: Sequence[TritonType], pack: object
) -> tuple[TensorValue, bool]:
    """Evaluate inline assembly. Returns the result, and True if a special unit computes it.

    Raises:
        NotInterpretable: If the text is not one known instruction in its own form.
    """
    parts = _TEXT.fullmatch(str(text))
    name = parts["name"] if parts else ""
    if parts is None or name not in INSTRUCTIONS:
        raise NotInterpretable(
            f"the interpreter does not know the inline assembly `{_excerpt(text)}`; it knows single instructions "
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
