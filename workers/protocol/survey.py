"""The survey of a machine: its answer to the question what it can do."""

from workers.protocol.base import WireModel


class CardSurvey(WireModel):
    """One card, and whether what measuring needs works on it.

    Attributes:
        number: What `cuda:N` calls it.
        name: The driver's name of it.
        device: Its hardware class, None if it is of none that we know.
        capability: Compute capability, such as `9.0`.
        memory_bytes: Size of its memory; None where the driver's tool does not tell.
        l2_bytes: Size of its L2 cache.
        clock_mhz: Highest clock of its SMs; None as above.
        memory_clock_mhz: Highest clock of its memory; None as above.
        driver: Version of the driver.
        cuda: The newest CUDA that the driver can run.
        sharing: Whether one process sees what another wrote to the card's memory: `works`, or what went wrong.
        graphs: Whether a captured graph runs: `works`, or what went wrong.
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
        jail: What its jail can provide, or why there is none.
        versions: Of the tools that decide about verdicts and figures, by name.
        cards: Its cards.
        no_card: Why there are none, or why they were not looked for.
    """

    jail: str
    versions: dict[str, str]
    cards: tuple[CardSurvey, ...] = ()
    no_card: str = ""
