"""Precision of machine code against the contract, as far as instructions tell.

Matrix instructions name the types of their factors and sums. Sums in fewer bits than the contract's break it whatever
the result, and so do factors of 8 bits in an operator without such narrow values. An output with saturation may hide
both. Factors of 16 bits prove nothing, because float32 products may be computed from them in parts. Those, and all
other arithmetic, are judged by their results.
"""

from workers.assembler.machine import InstructionMix
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Launch, Operator, Outcome

NARROW_SUMS = {"float32": {"f16", "bf16"}, "float64": {"f16", "bf16", "f32"}}
"""Types of sums that are narrower than the accumulator."""
NARROW_FACTORS = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4", "b1"} | {
    "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4",
}  # fmt: skip
"""Types of factors of at most 8 bits, with the kinds in `tcgen05` and AMD's instructions that mean them."""


def check_precision(launch: Launch, mix: InstructionMix, operator: Operator) -> None:
    """Check the matrix instructions of a kernel against the contract.

    Raises:
        AssemblyRefused: With outcome `precision`.
    """
    accumulate = operator.precision.accumulate
    if narrow := mix.sums & NARROW_SUMS[accumulate]:
        raise AssemblyRefused(
            f"matrix instructions of '{launch.function}' accumulate in {_listed(narrow)}, but the contract requires "
            f"{accumulate}; give tl.dot an accumulator of {accumulate}, and no narrower out_dtype",
            launch.line,
            Outcome.PRECISION,
        )
    if (narrow := mix.factors & NARROW_FACTORS) and not operator.has_narrow_values:
        raise AssemblyRefused(
            f"matrix instructions of '{launch.function}' multiply {_listed(narrow)}, but the operator has no such "
            "narrow values; multiply its values in their own dtype",
            launch.line,
            Outcome.PRECISION,
        )


def _listed(types: frozenset[str] | set[str]) -> str:
    return " and ".join(sorted(types))
