"""Report on screening: evaluations saved, estimated from the proposals that were stored without screening."""

from collections.abc import Iterable, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict

from archive.progress import SCREENED


class ScreeningReport(BaseModel):
    """Effect of screening on the recent proposals of a search: `chosen` by it, or `blind`, stored without it.

    `saved` is how many more evaluations the same promotions would have taken without screening; negative if fewer, None
    before a blind proposal won a cell.
    """

    model_config = ConfigDict(frozen=True)

    chosen: int
    chosen_promotions: int
    blind: int
    blind_promotions: int
    saved: float | None

    @classmethod
    def of(cls, tried: Iterable[tuple[bool, bool]]) -> Self:
        """Count judged proposals, each given as two flags: blind, and won a cell."""
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
        """Describe the effect for people.

        Args:
            dropped: Edits that screening skipped in the whole search.
        """
        said = (
            f"Screening skipped {dropped:,} edits. Of the recent proposals that it chose, {self.chosen_promotions:,} "
            f"of {self.chosen:,} won a cell; of those made without it, {self.blind_promotions:,} of {self.blind:,}"
        )
        if self.saved is None:
            return f"{said}."
        return f"{said}: {abs(round(self.saved)):,} evaluations {'saved' if self.saved >= 0 else 'lost'}."


def dropped(emitters: Mapping[str, Mapping[str, int]]) -> int:
    """Return the number of edits that screening skipped in a whole search, from the emitters' progress counts."""
    return sum(counts.get(SCREENED, 0) for counts in emitters.values())
