"""Checks of a launch of an assembled kernel: its arguments against the entry, its precision against the contract.

Matrix instructions name the types of their factors and sums. Sums in fewer bits than the contract's break it whatever
the result. So do factors of 8 bits in an operator without such narrow values. An output with saturation may hide
both. Factors of 16 bits prove nothing, because float32 products may be computed from them in parts. Those, and all
other arithmetic, are judged by their results.
"""

from workers.assembler.machine import TENSOR_MAP_BYTES, EntryParameter, InstructionMix
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Launch, Number, Operator, Outcome, Pointer, TensorMap

SCRATCH_POINTERS = 2
"""Pointers that Triton 3.6 and 3.7 append to every kernel's parameters: global scratch and profile scratch."""

_POINTER_BYTES = 8
_NUMBER_BYTES = {"i1": 1, "u1": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8} | {
    f"{sign}{bits}": bits // 8 for sign in "iu" for bits in (8, 16, 32, 64)
}


def check_launch(launch: Launch, parameters: tuple[EntryParameter, ...]) -> None:
    """Compare a launch's arguments with the entry's parameters.

    Raises:
        AssemblyRefused: If the arguments do not match the parameters.
    """
    passed = [
        (index, item)
        for index, argument in enumerate(launch.arguments)
        for item in (argument.parameters() if argument.kind == "descriptor" else (argument,))
    ]
    declared = parameters[: len(parameters) - SCRATCH_POINTERS]
    scratch = parameters[len(declared) :]
    if len(parameters) != len(passed) + SCRATCH_POINTERS or not all(map(_is_address, scratch)):
        raise AssemblyRefused(
            f"'{launch.function}' is launched with {len(passed)} arguments and {SCRATCH_POINTERS} scratch "
            f"pointers, but its entry takes {len(parameters)} parameters",
            launch.line,
        )
    for (index, item), parameter in zip(passed, declared, strict=True):
        if not _fits(item, parameter):
            raise AssemblyRefused(
                f"argument {index} of '{launch.function}' is a {launch.arguments[index].kind}, but its entry takes "
                f"{parameter.bytes} bytes of {parameter.type} there",
                launch.line,
            )


def _fits(item: Pointer | Number | TensorMap, parameter: EntryParameter) -> bool:
    if isinstance(item, TensorMap):
        return parameter == EntryParameter(TENSOR_MAP_BYTES, "bits")
    if isinstance(item, Pointer):
        return _is_address(parameter)
    fits = parameter.bytes == _NUMBER_BYTES[item.type] and parameter.type != "pointer"
    return fits and (parameter.type != "float" or item.type in ("fp32", "fp64"))


def _is_address(parameter: EntryParameter) -> bool:
    return parameter.bytes == _POINTER_BYTES and parameter.type != "float"


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
