"""Equality of PTX programs up to names of registers and the order of pure instructions.

Triton 3.7 emits kernels that run in clusters in a random order. Instructions that access memory, wait or branch keep
their order, others stay in their block, and no instruction crosses one that writes its operands.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

_PURE = {
    "abs", "add", "and", "bfe", "bfi", "bfind", "brev", "clz", "copysign", "cos", "cvt", "cvta", "div", "ex2",
    "fma", "fns", "lg2", "lop3", "mad", "max", "min", "mul", "neg", "not", "or", "popc", "prmt", "rcp", "rem",
    "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "tanh", "xor",
}  # fmt: skip
# Instructions whose order within one block does not matter. `mov` is not among them: loops carry values with it.
_REGISTER = re.compile(r"%[a-z]{1,3}\d+\b")
_BRANCH = re.compile(r"(@\S+\s+)?(bra|brx|call|ret)\b")
_COMMENT = re.compile(r"//[^\n]*")
_TARGET = re.compile(r"(?:@\S+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^\[{,;]+)")
# The first operand of an instruction, which it writes unless that is an address.


def are_alike(first: str, second: str) -> bool:
    """True if two texts are one program.

    Each register is identified by its instructions, and these by their other registers, until no more registers can be
    distinguished.
    """
    one, other = _Text(first), _Text(second)
    while True:
        if one.described() != other.described():
            return False
        known = one.distinguished()
        one.refine()
        other.refine()
        if one.distinguished() == known and other.distinguished() == known:
            return one.described() == other.described()


class _Text:
    """A program: instructions without their registers, and the identity of each register."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in _COMMENT.sub("", text).splitlines()]
        lines = [line for line in lines if line]
        self._registers = [_REGISTER.findall(line) for line in lines]
        shapes = _placed([_REGISTER.sub("%", line) for line in lines])
        versions = _versions(lines, self._registers)
        self._shapes = [f"{shape} {version}" for shape, version in zip(shapes, versions, strict=True)]
        self._known: Mapping[str, bytes] = {name: b"" for names in self._registers for name in names}

    def described(self) -> Counter[bytes]:
        """Return the instructions with the identities of their registers."""
        return Counter(self._each())

    def distinguished(self) -> int:
        """Return the number of registers that can be distinguished."""
        return len(set(self._known.values()))

    def refine(self) -> None:
        """Identify each register by its instructions and its positions in them."""
        found: dict[str, list[bytes]] = {name: [] for name in self._known}
        for described, names in zip(self._each(), self._registers, strict=True):
            for position, name in enumerate(names):
                found[name].append(described + position.to_bytes(2))
        self._known = {name: _digest(sorted(uses)) for name, uses in found.items()}

    def _each(self) -> list[bytes]:
        pairs = zip(self._shapes, self._registers, strict=True)
        return [_digest([shape.encode(), *(self._known[name] for name in names)]) for shape, names in pairs]


def _placed(shapes: Sequence[str]) -> list[str]:
    """Prefix instructions with their place: the block, and a number if their order matters."""
    block, ordered, placed = 0, 0, []
    for shape in shapes:
        opcode = re.split(r"[.\s;]", shape, maxsplit=1)[0]
        if shape.endswith(":") or _BRANCH.match(shape):
            block += 1
        ordered += opcode not in _PURE
        placed.append(f"{block} {shape}" if opcode in _PURE else f"{block} {ordered} {shape}")
    return placed


def _versions(lines: Sequence[str], registers: Sequence[Sequence[str]]) -> list[str]:
    """Count, for each line's registers in order, the writes to them before that line."""
    written: Counter[str] = Counter()
    found = []
    for line, names in zip(lines, registers, strict=True):
        found.append(" ".join(str(written[name]) for name in names))
        target = _TARGET.match(line)
        written.update(_REGISTER.findall(target[1]) if target else ())
    return found


def _digest(parts: Sequence[bytes]) -> bytes:
    made = blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(4) + part)
    return made.digest()
