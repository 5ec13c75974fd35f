"""Arguments of launches, checked against the parameters of a kernel's entry."""

from workers.assembler.machine import EntryParameter
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Launch, Pointer

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
    declared = parameters[: len(parameters) - SCRATCH_POINTERS]
    scratch = parameters[len(declared) :]
    if len(parameters) != len(launch.arguments) + SCRATCH_POINTERS or not all(map(_is_address, scratch)):
        raise AssemblyRefused(
            f"'{launch.function}' is launched with {len(launch.arguments)} arguments and {SCRATCH_POINTERS} scratch "
            f"pointers, but its entry takes {len(parameters)} parameters",
            launch.line,
        )
    for index, (argument, parameter) in enumerate(zip(launch.arguments, declared, strict=True)):
        if isinstance(argument, Pointer):
            fits = _is_address(parameter)
        else:
            floating = argument.type in ("fp32", "fp64")
            fits = parameter.bytes == _NUMBER_BYTES[argument.type] and parameter.type != "pointer"
            fits = fits and (parameter.type != "float" or floating)
        if not fits:
            raise AssemblyRefused(
                f"argument {index} of '{launch.function}' is a {argument.kind}, but its entry takes {parameter.bytes} "
                f"bytes of {parameter.type} there",
                launch.line,
            )


def _is_address(parameter: EntryParameter) -> bool:
    return parameter.bytes == _POINTER_BYTES and parameter.type != "float"
