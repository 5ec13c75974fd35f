"""The survey of a machine: its abilities as a worker."""

from workers.protocol.base import WireModel
from workers.protocol.card import CardSheet


class CardSurvey(WireModel):
    """One card, with tests of everything that measuring needs.

    Attributes:
        number: Its number N in `cuda:N`.
        device: Its hardware class; None if it has none.
        sheet: Facts by its driver.
        driver: Version of the driver.
        cuda: Newest version of CUDA that the driver can run.
        sharing: `works` if a process can read another's writes to the card's memory; else the error.
        graphs: `works` if a captured graph runs; else the error.
    """

    number: int
    device: str | None
    sheet: CardSheet
    driver: str
    cuda: str
    sharing: str
    graphs: str

    @property
    def name(self) -> str:
        """The driver's name of it."""
        return self.sheet.name

    @property
    def measures(self) -> bool:
        """True if candidates can be measured on it."""
        return self.device is not None and self.sharing == self.graphs == "works"


class Survey(WireModel):
    """The abilities of one machine.

    Attributes:
        jail: Layers of its sandbox, or the reason why there is none.
        versions: Versions of the tools that decide verdicts and figures, by name.
        cards: Its cards.
        no_card: Reason why there are none, or why they were not looked for.
    """

    jail: str
    versions: dict[str, str]
    cards: tuple[CardSurvey, ...] = ()
    no_card: str = ""
