"""Records of steering: what people say while a search runs."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class NewPin:
    """A cell or a candidate to prefer as a parent. Exactly one of `cell` and `candidate` is given.

    Attributes:
        id: UUIDv7.
        search: Which search.
        device: Which archive within it.
        cell: A cell: whoever holds it is preferred.
        candidate: A candidate: it is preferred while it holds any cell.
        author: Who asked for it, for people.
    """

    id: str
    search: str
    device: str
    cell: int | None
    candidate: str | None
    author: str = ""

    @property
    def subject(self) -> str:
        """Subject of the pin; a search has one pin per device and subject."""
        return f"cell {self.cell}" if self.candidate is None else f"candidate {self.candidate}"


@dataclass(frozen=True)
class PinRecord(NewPin):
    """A stored pin."""

    created_at: datetime = datetime.min


@dataclass(frozen=True)
class NewHint:
    """Hint of a person for the models that write candidates.

    Attributes:
        id: UUIDv7.
        search: Which search.
        text: What was said. As little to be trusted as any other text from outside.
        author: Who said it, for people.
    """

    id: str
    search: str
    text: str
    author: str = ""


@dataclass(frozen=True)
class HintRecord(NewHint):
    """A stored hint."""

    created_at: datetime = datetime.min


@dataclass(frozen=True)
class MutationReportRecord:
    """Stored mutation report of an operator; `document` is its JSON text."""

    operator: str
    verdict: str
    document: str
    created_at: datetime
