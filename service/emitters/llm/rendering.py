"""Rendering of prompts from Jinja files: sections in a fixed order, cut to a budget, each statement citing its report.

Text from candidates, models and people is data. It goes into fences that it cannot close, or onto one line in quotes,
without control characters. As a value of a template it is never parsed as a template.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from service.emitters.llm.fences import marks_for

VERSION = 7
"""Version of the templates; raised when a template's content changes, so that exchanges can be told apart."""
BUDGET_BYTES = 40_000
"""Maximum size of a prompt in bytes: about ten thousand tokens, which every model in use reads well."""
SOURCE_CHARS = 10_000
"""Maximum length of a source shown whole; two of them, the reference and the mandatory sections fit the budget."""

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
    "warp_roles": "roles of warps {}",
    "cluster_size": "thread blocks of a cluster {}",
    "bytes_required": "bytes required {}",
    "bytes_moved": "bytes moved {}",
    "persistent": "persistent {}",
}
"""Readings that prompts show, with their wording."""


@dataclass(frozen=True)
class PromptSection:
    """Part of a prompt that is kept or dropped as a whole.

    Attributes:
        section: Its heading.
        rank: Order of dropping: the largest rank goes first, 0 always stays.
        text: Its text.
        claims: Job of the report behind each statement, by mark.
    """

    section: str
    rank: int
    text: str
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RenderedPrompt:
    """Finished prompt. `claims` maps each mark such as `R3` to its report's job; `dropped` names dropped sections."""

    system: str
    user: str
    claims: Mapping[str, str]
    dropped: tuple[str, ...] = ()


class ReportCitations:
    """Numbering of the reports that a prompt cites."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self.used: dict[str, str] = {}

    def ref(self, job: str) -> str:
        """Return the mark for a statement; empty if there is no report."""
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
        """Render a template and add it; `claims` are added to those that the text marks."""
        self._marks.used = {}
        text = write(template, {"ref": self._marks.ref, **values})
        self.pieces.append(PromptSection(section, rank, text, {**self._marks.used, **(claims or {})}))

    def prompt(self, system: str, headings: Iterable[str]) -> RenderedPrompt:
        """Join all sections that fit, in the order of the headings."""
        kept, dropped = within_budget(self.pieces, BUDGET_BYTES - len(system.encode()))
        claims: dict[str, str] = {}
        for piece in kept:
            claims.update(piece.claims)
        return RenderedPrompt(system, _joined(kept, headings), claims, tuple(piece.section for piece in dropped))


def write(template: str, values: Mapping[str, object]) -> str:
    """Render a template of the folder `wording`."""
    return _PROMPTS.get_template(f"{template}.md.jinja").render(values).strip("\n")


def within_budget(pieces: Iterable[PromptSection], most: int) -> tuple[list[PromptSection], list[PromptSection]]:
    """Split pieces into those that fit `most` bytes and those dropped: largest rank first, of equals the last."""
    kept, dropped = list(pieces), []
    while sum(_size(piece) for piece in kept) > most:
        place = max(range(len(kept)), key=lambda number: (kept[number].rank, number))
        if kept[place].rank == 0:
            break
        dropped.append(kept.pop(place))
    return kept, dropped


def clean(text: str) -> str:
    """Remove control characters, and what UTF-8 cannot encode; line breaks and tabs stay."""
    kept = "".join(char for char in text.replace("\r\n", "\n") if char in "\n\t" or char.isprintable())
    return kept.encode("utf-8", "replace").decode()


def fenced(text: object, word: str = "", most: int = SOURCE_CHARS) -> str:
    """Put a text into a fence that no line of it can close."""
    said = clean(str(text)).strip("\n")
    if len(said) > most:
        said = said[:most] + f"\n[cut here: {len(said) - most} more characters]"
    marks = marks_for(said)
    return f"{marks}{word}\n{said}\n{marks}"


def line(value: object, most: int) -> str:
    """Put a value in quotes on one line."""
    said = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    flat = " ".join(clean(said).split()).replace('"', "'").replace("`", "'")
    return f'"{flat[:most]}{"…" if len(flat) > most else ""}"'


def readings(values: Mapping[str, Any]) -> str:
    """Write readings in words, without unknown ones."""
    known = {name: values[name] for name in READINGS if values.get(name) is not None}
    said = [READINGS[name].format(value) for name, value in known.items() if isinstance(value, int | float)]
    said += [READINGS[name].format(line(value, 20)) for name, value in known.items() if isinstance(value, str)]
    return ", ".join(said)


def us(time_us: float | None) -> str:
    """Write a time with its significant digits."""
    return "unknown" if time_us is None else f"{time_us:.4g} us"


def advice(text: str, most: int) -> str:
    """Put a person's advice on one line that can be neither a heading nor a fence."""
    flat = " ".join(clean(text).split()).replace("`", "'")
    return f"{flat[:most]}{'…' if len(flat) > most else ''}"


def _size(piece: PromptSection) -> int:
    """Return the bytes of a piece, with blank lines and its heading."""
    return len(piece.text.encode()) + len(piece.section) + 8


def _joined(pieces: Iterable[PromptSection], headings: Iterable[str]) -> str:
    found: dict[str, list[str]] = {}
    for piece in pieces:
        found.setdefault(piece.section, []).append(piece.text)
    return "\n\n".join(f"# {name}\n\n{_with_breaks(found[name])}" for name in headings if name in found) + "\n"


def _with_breaks(texts: Sequence[str]) -> str:
    """Join texts by blank lines, and items of a list by line breaks."""
    parts = [texts[0]]
    for before, text in itertools.pairwise(texts):
        parts += ["\n" if "\n" not in before and before.startswith("- ") and text.startswith("- ") else "\n\n", text]
    return "".join(parts)


_PROMPTS = Environment(
    loader=PackageLoader("service.emitters.llm", "wording"),
    undefined=StrictUndefined,
    autoescape=False,
    trim_blocks=False,
)
_PROMPTS.filters.update(advice=advice, fenced=fenced, line=line, readings=readings, us=us)
