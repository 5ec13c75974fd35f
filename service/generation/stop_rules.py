"""Stop rules: conditions in a search's request that end it before its evaluations are used up."""

from datetime import UTC, datetime

from archive.records import SearchRecord
from archive.store import Store
from service.evaluation.figure_labels import relative_to
from service.requests import StopRules


async def stop_reason(store: Store, search: SearchRecord) -> str:
    """Return which stop rule is met, in words; empty if none is."""
    if search.stop is None:
        return ""
    rules = StopRules.model_validate(search.stop)
    elapsed_s = (datetime.now(UTC) - search.created_at).total_seconds()
    if rules.seconds is not None and elapsed_s >= rules.seconds:
        return f"it has run for {elapsed_s:.0f} s (stop rule: {rules.seconds:g} s)"
    counts = await store.candidates.count(search.id)
    if rules.device_seconds is not None and counts.device_ms >= 1000 * rules.device_seconds:
        return f"evaluations took {counts.device_ms / 1000:.1f} s on devices (stop rule: {rules.device_seconds:g} s)"
    if rules.speedup is None and rules.plateau is None:
        return ""
    best, since = await _standing(store, search)
    if rules.speedup is not None and best >= rules.speedup:
        return f"the best kernel has reached {best:.3f} (stop rule: {rules.speedup:g})"
    if rules.plateau is not None and counts.evaluated - since >= rules.plateau:
        return f"the best has not improved for {counts.evaluated - since} evaluations (stop rule: {rules.plateau})"
    return ""


async def _standing(store: Store, search: SearchRecord) -> tuple[float, int]:
    """Return the best objective on any device, and the latest evaluation that improved a device's best.

    Objectives over the pacer are left out: they are no speedup before the baselines are measured.
    """
    best, since = 0.0, 0
    for device in search.devices:
        course = [point for point in await store.views.milestones(search.id, device) if point.best is not None]
        if course:
            most = max(point.best or 0.0 for point in course)
            best = max(best, most if relative_to(device, search) == relative_to(device) else 0.0)
            since = max(since, next(point.evaluations for point in course if point.best == most))
    return best, since
