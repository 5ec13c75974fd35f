"""What screening saved, told by the proposals that were stored unseen."""

from collections.abc import Iterable, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict

from archive.progress import SCREENED


class ScreeningReport(BaseModel):
    """What screening brought among the recent proposals of a search: `chosen` ones, and `blind` ones stored unseen.

    `saved` are evaluations that as many promotions would have taken more if all were unseen, less than 0 if fewer; None
    before an unseen one won a cell.
    """

    model_config = ConfigDict(frozen=True)

    chosen: int
    chosen_promotions: int
    blind: int
    blind_promotions: int
    saved: float | None

    @classmethod
    def of(cls, tried: Iterable[tuple[bool, bool]]) -> Self:
        """Count judged proposals: whether each was stored unseen, and whether it won a cell."""
        told = list(tried)
        chosen, blind = ([won for unseen, won in told if unseen is kind] for kind in (False, True))
        rate = sum(blind) / len(blind) if blind else 0.0
        return cls(
            chosen=len(chosen),
            chosen_promotions=sum(chosen),
            blind=len(blind),
            blind_promotions=sum(blind),
            saved=sum(chosen) / rate - len(chosen) if rate else None,
        )

    def in_words(self, dropped: int) -> str:
        """What screening brought, for people.

        Args:
            dropped: Ways that the whole search passed over.
        """
        said = (
            f"Screening passed over {dropped:,} ways. Of the proposals that it chose lately {self.chosen_promotions:,} "
            f"of {self.chosen:,} won a cell, of those stored unseen {self.blind_promotions:,} of {self.blind:,}"
        )
        if self.saved is None:
            return f"{said}."
        return f"{said}: {abs(round(self.saved)):,} evaluations {'saved' if self.saved >= 0 else 'lost'}."


def dropped(emitters: Mapping[str, Mapping[str, int]]) -> int:
    """Ways that screening passed over in a whole search, told by what progress counts for each emitter."""
    return sum(counts.get(SCREENED, 0) for counts in emitters.values())
