"""The survey of a machine: its answer to the question what it can do."""

from workers.protocol.base import WireModel
from workers.protocol.card import CardSheet


class CardSurvey(WireModel):
    """One card, and whether what measuring needs works on it.

    Attributes:
        number: What `cuda:N` calls it.
        device: Its hardware class, None if it has none.
        sheet: Facts by its driver.
        driver: Version of the driver.
        cuda: The newest CUDA that the driver can run.
        sharing: Whether one process sees what another wrote to the card's memory: `works`, or what went wrong.
        graphs: Whether a captured graph runs: `works`, or what went wrong.
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
        jail: What its jail can provide, or why there is none.
        versions: Of the tools that decide about verdicts and figures, by name.
        cards: Its cards.
        no_card: Why there are none, or why they were not looked for.
    """

    jail: str
    versions: dict[str, str]
    cards: tuple[CardSurvey, ...] = ()
    no_card: str = ""
