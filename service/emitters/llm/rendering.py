"""Prompts out of Jinja files: sections in a fixed order, cut to a budget, every statement traceable to a report.

What comes from candidates, models and people is data. It goes into fences that it cannot close, or onto one line in
quotes, without control characters; and as a value of a template it is never read as one.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from service.emitters.llm.fences import marks_for

VERSION = 3
"""Of the templates; raised when one says something else, so that exchanges can be told apart."""
BUDGET_BYTES = 40_000
"""Most bytes of a prompt: about ten thousand tokens, which every model in use reads well."""
SOURCE_CHARS = 10_000
"""Longest source shown whole; two of them, the reference and all that must be said stay within the budget."""

READINGS = {
    "launches": "launches {}",
    "programs": "programs {}",
    "programs_per_sm": "programs a multiprocessor {:.2f}",
    "num_warps": "warps {}",
    "registers": "registers a thread {}",
    "spill_bytes": "spilled bytes {}",
    "shared_bytes": "shared memory {} bytes",
    "occupancy": "occupancy {:.2f}",
    "load_width_bytes": "widest load {} bytes",
    "memory_path": "memory path {}",
    "tensor_core": "matrix instructions {}",
    "bytes_required": "bytes required {}",
    "bytes_moved": "bytes moved {}",
    "persistent": "persistent {}",
}
"""Readings that are told, in words."""


@dataclass(frozen=True)
class PromptSection:
    """A part of a prompt that stands or falls as a whole.

    Attributes:
        section: The heading that it stands under.
        rank: What is dropped first has the largest; 0 always stays.
        text: What it says.
        claims: Statement to report job.
    """

    section: str
    rank: int
    text: str
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt. `claims` maps each mark such as `R3` to the job whose report it rests on; `dropped` names sections."""

    system: str
    user: str
    claims: Mapping[str, str]
    dropped: tuple[str, ...] = ()


class ReportCitations:
    """Numbers the reports that a prompt rests on."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self.used: dict[str, str] = {}

    def ref(self, job: str) -> str:
        """A mark behind a statement; nothing where there is no report."""
        if not job:
            return ""
        mark = self._numbers.setdefault(job, f"R{len(self._numbers) + 1}")
        self.used[mark] = job
        return f" [{mark}]"


class PromptWriter:
    """Writes the pieces of one prompt."""

    def __init__(self) -> None:
        self._marks = ReportCitations()
        self.pieces: list[PromptSection] = []

    def add(
        self,
        section: str,
        rank: int,
        template: str,
        values: Mapping[str, object],
        claims: Mapping[str, str] | None = None,
    ) -> None:
        """Add what a template makes of some values; `claims` are made besides those that the text marks."""
        self._marks.used = {}
        text = write(template, {"ref": self._marks.ref, **values})
        self.pieces.append(PromptSection(section, rank, text, {**self._marks.used, **(claims or {})}))

    def prompt(self, system: str, headings: Iterable[str]) -> RenderedPrompt:
        """Everything that fits, in the order of the headings."""
        kept, dropped = within_budget(self.pieces, BUDGET_BYTES - len(system.encode()))
        claims: dict[str, str] = {}
        for piece in kept:
            claims.update(piece.claims)
        return RenderedPrompt(system, _joined(kept, headings), claims, tuple(piece.section for piece in dropped))


def write(template: str, values: Mapping[str, object]) -> str:
    """What a template of the folder `prompts` makes of some values."""
    return _PROMPTS.get_template(f"{template}.md.jinja").render(values).strip("\n")


def within_budget(pieces: Iterable[PromptSection], most: int) -> tuple[list[PromptSection], list[PromptSection]]:
    """Pieces that fit into some bytes, and those that were dropped: the largest rank first, of equals the last."""
    kept, dropped = list(pieces), []
    while sum(_size(piece) for piece in kept) > most:
        place = max(range(len(kept)), key=lambda number: (kept[number].rank, number))
        if kept[place].rank == 0:
            break
        dropped.append(kept.pop(place))
    return kept, dropped


def clean(text: str) -> str:
    """Text without control characters, as UTF-8 can write it; lines and tabs stay."""
    kept = "".join(char for char in text.replace("\r\n", "\n") if char in "\n\t" or char.isprintable())
    return kept.encode("utf-8", "replace").decode()


def fenced(text: object, word: str = "", most: int = SOURCE_CHARS) -> str:
    """A text in a fence that no line of it can close."""
    said = clean(str(text)).strip("\n")
    if len(said) > most:
        said = said[:most] + f"\n[cut here: {len(said) - most} more characters]"
    marks = marks_for(said)
    return f"{marks}{word}\n{said}\n{marks}"


def line(value: object, most: int) -> str:
    """A value in quotes on one line."""
    said = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    flat = " ".join(clean(said).split()).replace('"', "'").replace("`", "'")
    return f'"{flat[:most]}{"…" if len(flat) > most else ""}"'


def readings(values: Mapping[str, Any]) -> str:
    """Readings in words; those that are unknown are left out."""
    known = {name: values[name] for name in READINGS if values.get(name) is not None}
    said = [READINGS[name].format(value) for name, value in known.items() if isinstance(value, int | float)]
    said += [READINGS[name].format(line(value, 20)) for name, value in known.items() if isinstance(value, str)]
    return ", ".join(said)


def us(time_us: float) -> str:
    """A time with the digits that mean something."""
    return f"{time_us:.4g} us"


def _size(piece: PromptSection) -> int:
    """Bytes of a piece with the blank lines and the heading that it may need."""
    return len(piece.text.encode()) + len(piece.section) + 8


def _joined(pieces: Iterable[PromptSection], headings: Iterable[str]) -> str:
    found: dict[str, list[str]] = {}
    for piece in pieces:
        found.setdefault(piece.section, []).append(piece.text)
    return "\n\n".join(f"# {name}\n\n" + "\n\n".join(found[name]) for name in headings if name in found) + "\n"


_PROMPTS = Environment(
    loader=PackageLoader("service.emitters.llm", "wording"),
    undefined=StrictUndefined,
    autoescape=False,
    trim_blocks=False,
)
_PROMPTS.filters.update(fenced=fenced, line=line, readings=readings, us=us)
