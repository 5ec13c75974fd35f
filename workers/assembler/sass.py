"""Machine code of an NVIDIA kernel as text: the output of nvdisasm, parsed into instructions with loops and lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workers.assembler.machine import ENTRY

_SECTION = re.compile(r"^\s*\.section\s+(\S+?),")
_LINE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
_LABEL = re.compile(r"^(\.\S+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.+?)\s*;")
_GUARD = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"`\((\.\S+?)\)")
_JUMPS = frozenset(("BRA", "JMP", "BRX", "JMX", "BRXU", "JMXU"))

_CLASSES = {
    "load_global": "LDG LD LDGSTS UBLKCP UTMALDG UTMAPF UBLKPF",
    "store_global": "STG ST UTMASTG",
    "load_shared": "LDS LDSM",
    "store_shared": "STS STSM",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS UBLKRED UTMAREDG",
    "matrix": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA WARPGROUP",
    "float": "FADD FMUL FFMA FSETP FSET FMNMX FSEL FSWZADD FCHK FFMA32I FADD32I FMUL32I FADD2 FMUL2 FFMA2 FMNMX3 "
    "HADD2 HMUL2 HFMA2 HSETP2 HSET2 HMNMX2 HADD2_32 HFMA2_MMA DADD DMUL DFMA DSETP DMNMX UFADD UFMUL UFFMA UFSETP",
    "special": "MUFU",
    "integer": "IADD IADD3 IMAD IMNMX IMUL ISETP ISCADD LEA LOP LOP3 SHF SHL SHR BMSK BREV FLO POPC SGXT VIADD "
    "VIADDMNMX VIMNMX VIMNMX3 IABS IDP IDP4A PLOP3 UIADD3 UIMAD UISETP ULEA ULOP ULOP3 USHF UBMSK UBREV UFLO UPOPC "
    "USGXT UPLOP3 UIMNMX UVIADD UIABS UVIMNMX IADD2 UIADD2 VABSDIFF VABSDIFF4",
    "convert": "F2F F2I I2F I2I I2IP F2FP I2FP F2IP FRND UF2F UI2F UF2FP",
    "branch": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BPT KILL RTT YIELD",
    "barrier": "BAR MEMBAR DEPBAR LDGDEPBAR SYNCS ARRIVES FENCE WARPSYNC ERRBAR UCGABAR_ARV UCGABAR_WAIT UTMACMDFLUSH "
    "UTCBAR ACQBULK CGABAR NANOSLEEP",
}
_CLASS_OF = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes.split()}


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One instruction.

    Attributes:
        offset: Its place in the kernel, bytes.
        text: The instruction with its guard and operands.
        line: The line of the source that it comes from; None if unknown.
        target: Offset that it jumps to; None if it does not jump.
    """

    offset: int
    text: str
    line: int | None = None
    target: int | None = None

    @property
    def opcode(self) -> str:
        """Its opcode without modifiers, such as `LDG`."""
        return _GUARD.sub("", self.text).split(maxsplit=1)[0].split(".")[0]

    @property
    def class_name(self) -> str:
        """Its class, one of `workers.assembler.CLASSES`."""
        return _CLASS_OF.get(self.opcode, "other")


def parse_sass(text: str) -> list[SassInstruction]:
    """Parse nvdisasm's text of the kernel's entry, without the padding behind its last jump.

    Args:
        text: Output of `nvdisasm -c`, with `-g` if lines are wanted.
    """
    labels: dict[str, int] = {}
    found: list[tuple[int, str, int | None]] = []
    line, inside, waiting = None, False, list[str]()
    for row in text.splitlines():
        if section := _SECTION.match(row):
            inside = section[1] == f".text.{ENTRY}"
        elif not inside:
            continue
        elif told := _LINE.match(row):
            line = int(told[1]) or None
        elif label := _LABEL.match(row):
            waiting.append(label[1])
        elif instruction := _INSTRUCTION.match(row):
            offset = int(instruction[1], 16)
            labels |= dict.fromkeys(waiting, offset)
            waiting.clear()
            found.append((offset, instruction[2], line))
    return _without_padding(
        [SassInstruction(offset, said, line, _target(said, labels)) for offset, said, line in found]
    )


def loop_depths(instructions: Sequence[SassInstruction]) -> list[int]:
    """Return the number of loops around each instruction: distinct targets of backward jumps that enclose it."""
    ends: dict[int, int] = {}
    for each in instructions:
        if each.target is not None and each.target < each.offset:
            ends[each.target] = max(each.offset, ends.get(each.target, 0))
    return [sum(start <= each.offset <= end for start, end in ends.items()) for each in instructions]


def _target(said: str, labels: dict[str, int]) -> int | None:
    instruction = SassInstruction(0, said)
    place = _TARGET.search(said)
    return labels.get(place[1]) if place and instruction.opcode in _JUMPS else None


def _without_padding(instructions: list[SassInstruction]) -> list[SassInstruction]:
    """Leave out the jump to itself at the end, which nothing reaches, and what follows it."""
    traps = [number for number, each in enumerate(instructions) if each.target == each.offset]
    return instructions[: traps[-1]] if traps else instructions
