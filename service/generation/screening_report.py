"""What screening saved, told by the proposals that were stored unseen."""

from collections.abc import Iterable, Mapping

from archive.progress import SCREENED
from kernelreef.models import ScreeningReport


def screened_of(tried: Iterable[tuple[bool, bool]]) -> ScreeningReport:
    """Count judged proposals: whether each was stored unseen, and whether it won a cell."""
    told = list(tried)
    chosen, blind = ([won for unseen, won in told if unseen is kind] for kind in (False, True))
    rate = sum(blind) / len(blind) if blind else 0.0
    return ScreeningReport(
        chosen=len(chosen),
        chosen_promotions=sum(chosen),
        blind=len(blind),
        blind_promotions=sum(blind),
        saved=sum(chosen) / rate - len(chosen) if rate else None,
    )


def dropped(emitters: Mapping[str, Mapping[str, int]]) -> int:
    """Ways that screening passed over in a whole search, told by what progress counts for each emitter."""
    return sum(counts.get(SCREENED, 0) for counts in emitters.values())
