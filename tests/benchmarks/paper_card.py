"""Events of a card on paper; the fixture `paper_card` is in `conftest.py`."""


class PaperEvent:
    """An event of a card that runs nothing by itself; `late` counts down the starts that the host was late for."""

    late = 0
    now = 0.0

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = PaperEvent.now

    def query(self) -> bool:
        PaperEvent.late -= 1
        return PaperEvent.late >= 0

    def synchronize(self) -> None:
        """Wait for nothing."""

    def elapsed_time(self, other: "PaperEvent") -> float:
        return other.at - self.at


def spend(log: list[str], name: str) -> None:
    log.append(name)
    PaperEvent.now += 1.0
