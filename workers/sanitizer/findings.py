"""Findings parsed from compute-sanitizer's output: the tool's own words, with names in place of addresses.

All kernels' entries have the same name in machine code, and an address tells a person nothing. The allocation around
it gives the buffer, its shape, and the kernels that received it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workers.sanitizer.messages import BufferAllocation

MARK = "========="
"""Prefix of each line of the tool."""
_FAULTY = re.compile(
    r"(Invalid|Misaligned|Uninitialized|Out-of-range|Stack overflow)\b|Error: (Potential \w+ hazard|Race reported)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:access at|address) (0x[0-9a-f]+)", re.IGNORECASE)
_SUMMARY = re.compile(rf"^{MARK} (?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: .*\((\d+) errors?)", re.MULTILINE)


@dataclass(frozen=True)
class SanitizerFinding:
    """One error that the tool reports.

    Attributes:
        message: Its first line, without the mark.
        address: Address of the memory access; None if the tool gives none.
    """

    message: str
    address: int | None = None

    def describe(self, allocations: Sequence[BufferAllocation]) -> str:
        """Return the finding as a sentence, with the buffer nearest to its address."""
        if self.address is None or not allocations:
            functions = tuple(dict.fromkeys(name for allocation in allocations for name in allocation.functions))
            return f"{self.message}{_by(functions)}"
        address = self.address
        nearest = min(allocations, key=lambda item: item.distance(address))
        where = f"{_where(nearest, address)} of {nearest.name} at {nearest.shape}"
        return f"{self.message}, {where}{_by(nearest.functions)}"


def findings(output: str) -> list[SanitizerFinding]:
    """Return all findings, in the tool's order."""
    return [finding for block in _blocks(output) if (finding := _finding(block)) is not None]


def errors(output: str) -> int | None:
    """Return the number of errors that the tool counted at its end; None if it did not finish."""
    found = _SUMMARY.search(output)
    return None if found is None else int(found[1] or found[2])


def _blocks(output: str) -> Iterator[list[str]]:
    """Yield the tool's paragraphs: a line at its margin with the indented lines after it."""
    block: list[str] = []
    for line in output.splitlines():
        if not line.startswith(MARK):
            continue
        text = line.removeprefix(MARK)
        if text.startswith("     ") and block:
            block.append(text.strip())
            continue
        if block:
            yield block
        block = [text.strip()]
    if block:
        yield block


def _finding(block: list[str]) -> SanitizerFinding | None:
    if not _FAULTY.match(block[0]):
        return None
    address = next((found for line in block if (found := _ADDRESS.search(line))), None)
    return SanitizerFinding(block[0].removeprefix("Error: "), None if address is None else int(address[1], 16))


def _where(allocation: BufferAllocation, address: int) -> str:
    after = address - (allocation.address + allocation.bytes)
    if address < allocation.address:
        return f"{allocation.address - address} bytes before the start"
    return f"{after + 1} bytes after the end" if after >= 0 else f"at byte {address - allocation.address}"


def _by(functions: Sequence[str]) -> str:
    if not functions:
        return ""
    names = " or ".join(f"'{name}'" for name in functions)
    return f", by {names}"
