"""What the entry of a PTX module takes."""

from workers.assembler.machine import Parameter
from workers.assembler.ptx.syntax import Variable
from workers.assembler.refusal import Refused

_TYPES = {f"{letter}{bits}": (letter, bits // 8) for letter in "busf" for bits in (8, 16, 32, 64)}


def read_parameter(item: Variable) -> Parameter:
    """The parameter that a PTX declaration stands for.

    Raises:
        Refused: If it is of a form that Triton does not write.
    """
    letter, size = _TYPES.get(item.type, ("", 0))
    if item.space != "param" or not letter or len(item.extents) > 1 or item.values is not None:
        raise Refused(f"the entry takes '{item.name}' of a type that no launch passes")
    if item.extents:
        return Parameter(size * int(item.extents[0]), "bits")
    if "ptr" in item.attributes:
        return Parameter(size, "pointer")
    return Parameter(size, "float" if letter == "f" else "bits")
