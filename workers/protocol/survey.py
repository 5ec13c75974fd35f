"""The survey of a machine: its abilities as a worker."""

from workers.protocol.base import WireModel


class CardSurvey(WireModel):
    """One card, with tests of everything that measuring needs.

    Attributes:
        number: Its number N in `cuda:N`.
        name: Its name by the driver.
        device: Its hardware class; None if it is unknown.
        capability: Compute capability, such as `9.0`.
        memory_bytes: Size of its memory; None if the driver's tool does not report it.
        l2_bytes: Size of its L2 cache.
        clock_mhz: Highest clock of its SMs; None as above.
        memory_clock_mhz: Highest clock of its memory; None as above.
        driver: Version of the driver.
        cuda: Newest version of CUDA that the driver can run.
        sharing: `works` if a process can read another's writes to the card's memory; else the error.
        graphs: `works` if a captured graph runs; else the error.
    """

    number: int
    name: str
    device: str | None
    capability: str
    memory_bytes: int | None = None
    l2_bytes: int
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    driver: str
    cuda: str
    sharing: str
    graphs: str

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
