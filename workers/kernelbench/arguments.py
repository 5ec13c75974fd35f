"""Arguments of a call as an operator takes them: tensors and numbers by name, and texts that put them together.

Tuples, lists, mappings and objects of tensors become one input per tensor, complex tensors pairs of real numbers.
Runs inside the sandbox, and in the process of a user who searches for a function in memory.
"""

import keyword
import math
import re
from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

import torch

from workers.protocol.kernelbench import FILLED, GIVEN

LONGEST_NAME = 60
"""Maximum characters of an argument's name, with room for suffixes that make it unique."""
_NAMED_BY_TORCH = (torch.dtype, torch.layout, torch.memory_format)
_LITERAL = (type(None), str, bool, int, float, complex)


class SplitCall(NamedTuple):
    """A call, split.

    Attributes:
        leaves: Tensors and numbers of the call by our names; None for an absent tensor.
        texts: The call's arguments by name, as Python text over these names.
    """

    leaves: dict[str, object]
    texts: dict[str, str]


def split_call(arguments: Mapping[str, object], keys: Mapping[str, str]) -> SplitCall:
    """Split the arguments of a call.

    Args:
        arguments: The arguments by our names.
        keys: Text of each argument's place in the example, such as `[0]`.
    """
    splitting = _Splitting()
    texts = {name: splitting.top(name, value, f"{GIVEN}{keys[name]}") for name, value in arguments.items()}
    return SplitCall(splitting.leaves, texts)


def put_together(
    texts: Mapping[str, str], values: Mapping[str, object], names: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments of a call from values of its leaves.

    Args:
        texts: Texts of a `SplitCall`.
        values: Values by the names of its leaves.
        names: Names of the preparation that the texts may have.
    """
    known = {"torch": torch, **{name: names.get(name) for name in (GIVEN, FILLED)}, **values}
    return {name: eval(compile(text, "<arguments>", "eval"), known) for name, text in texts.items()}


def labels(value: object, label: str = "") -> list[str]:
    """Return the label of each tensor of a result, in the order of `RESULTS`: its keys and fields.

    A tensor that only a position tells from others has none.
    """
    if isinstance(value, torch.Tensor):
        return [label]
    parts = [*_named_parts(value)]
    if not parts and isinstance(value, tuple | list):
        places = [f"_{at}" if label and len(value) > 1 else "" for at in range(len(value))]
        return [each for place, item in zip(places, value, strict=True) for each in labels(item, label + place)]
    return [each for name, item in parts for each in labels(item, f"{label}_{name}".strip("_"))]


def _named_parts(value: object) -> Iterator[tuple[str, object]]:
    """List the parts of a mapping, a named tuple, a dataclass or a result of torch's, with their names."""
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
        return
    names = getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", None)
    if names is None and isinstance(value, tuple) and type(value).__module__ == "torch.return_types":
        names = getattr(type(value), "__match_args__", ())
    yield from ((name, getattr(value, name)) for name in names or ())


class _Splitting:
    """Splitting of one call."""

    def __init__(self) -> None:
        self.leaves: dict[str, object] = {}

    def top(self, name: str, value: object, place: str) -> str:
        """Return the text of an argument; numbers and absent tensors have names of their own."""
        if type(value) in (bool, int, float):
            return self._leaf(name, value)
        if value is None:
            self._leaf(name, value)
            return "None"
        return self._text(name, value, place)

    def _leaf(self, name: str, value: object) -> str:
        name = spelled(name, self.leaves.keys())
        self.leaves[name] = value
        return name

    def _text(self, name: str, value: object, place: str) -> str:
        if isinstance(value, torch.Tensor):
            if not value.is_complex():
                return self._leaf(name, value)
            return f"torch.view_as_complex({self._leaf(name, torch.view_as_real(value.resolve_conj()))})"
        if isinstance(value, _NAMED_BY_TORCH):
            return str(value)
        if type(value) in _LITERAL and not (isinstance(value, float) and not math.isfinite(value)):
            return repr(value)
        if isinstance(value, tuple | list) and type(value) in (tuple, list, torch.Size):
            items = [self._text(f"{name}_{at}", item, f"{place}[{at}]") for at, item in enumerate(value)]
            return f"[{', '.join(items)}]" if type(value) is list else f"({''.join(f'{item}, ' for item in items)})"
        if isinstance(value, dict) and type(value) is dict and all(type(key) in (str, int) for key in value):
            pairs = (
                f"{key!r}: {self._text(f'{name}_{key}', item, f'{place}[{key!r}]')}" for key, item in value.items()
            )
            return f"{{{', '.join(pairs)}}}"
        return self._object(name, value, place)

    def _object(self, name: str, value: object, place: str) -> str:
        """Return the text of an object of the example, with tensors of its fields replaced."""
        replaced = []
        for key, item in _fields(value).items():
            if _holds_tensor(item):
                where = f"{place}[{key!r}]" if isinstance(value, Mapping) else f"{place}.{key}"
                replaced.append(f"{key!r}: {self._text(f'{name}_{key}', item, where)}")
        return f"{FILLED}({place}, {{{', '.join(replaced)}}})" if replaced else place


def _fields(value: object) -> dict[str, object]:
    """Return the fields of an object that holds data: a named tuple, a mapping, a dataclass or the like."""
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if callable(value) or not hasattr(value, "__dict__"):
        return {}
    return {key: item for key, item in vars(value).items() if key.isidentifier()}


def _holds_tensor(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    items = value if isinstance(value, tuple | list) else _fields(value).values()
    return any(map(_holds_tensor, items))


def spelled(path: str, taken: Set[str]) -> str:
    """Return an argument's name for a module's `path`, different from all names that are taken."""
    name = re.sub(r"\W", "_", path)[:LONGEST_NAME] or "input"
    name = f"_{name}" if name[0].isdigit() else f"{name}_" if keyword.iskeyword(name) else name
    while name in taken:
        name = f"{name}_"
    return name
