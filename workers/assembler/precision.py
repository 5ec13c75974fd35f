"""Whether machine code keeps the precision that the contract asks for, as far as instructions tell.

Matrix instructions name the types that they multiply and add up in. Sums in fewer bits than the contract's break it
whatever comes out, and so do factors of 8 bits where the operator has nothing so narrow: an output that squashes what
it is made of may hide both. Factors of 16 bits tell nothing: float32 products may be sums of theirs, part by part.
Those, and all other arithmetic, are judged by what comes out.
"""

from workers.assembler.machine import InstructionMix
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Launch, Operator, Outcome

NARROW_SUMS = {"float32": {"f16", "bf16"}, "float64": {"f16", "bf16", "f32"}}
"""Types of sums that are narrower than an accumulator."""
NARROW_FACTORS = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4", "b1"} | {
    "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4",
}  # fmt: skip
"""Types of factors of 8 bits and fewer, and kinds of `tcgen05` and of AMD's instructions that stand for them."""


def check_precision(launch: Launch, mix: InstructionMix, operator: Operator) -> None:
    """Hold the matrix instructions of a kernel against the contract.

    Raises:
        Refused: With outcome `precision`.
    """
    accumulate = operator.precision.accumulate
    if narrow := mix.sums & NARROW_SUMS[accumulate]:
        raise AssemblyRefused(
            f"matrix instructions of '{launch.function}' add up in {_listed(narrow)}, and the contract asks for "
            f"{accumulate}; give tl.dot an accumulator of {accumulate}, and no narrower out_dtype",
            launch.line,
            Outcome.PRECISION,
        )
    if (narrow := mix.factors & NARROW_FACTORS) and not operator.has_narrow_values:
        raise AssemblyRefused(
            f"matrix instructions of '{launch.function}' multiply {_listed(narrow)}, and nothing in the operator has "
            "so few bits; multiply its values as they are",
            launch.line,
            Outcome.PRECISION,
        )


def _listed(types: frozenset[str] | set[str]) -> str:
    return " and ".join(sorted(types))
