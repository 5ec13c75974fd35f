"""Records of guidance: pins and hints of people, and mutation reports."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class NewPin:
    """A cell or a candidate to prefer as a parent. Exactly one of `cell` and `candidate` is given.

    Attributes:
        id: UUIDv7.
        search: Id of the search.
        device: Device whose grid it is about.
        cell: Index of a cell, whose present holder is preferred.
        candidate: Id of a candidate, which is preferred while it holds any cell.
        author: Name of the person who asked for it.
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
        search: Id of the search.
        text: The hint; as untrusted as any text from outside.
        author: Name of the person who gave it.
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
