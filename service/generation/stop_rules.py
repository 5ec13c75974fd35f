"""Stop rules: conditions in a search's request that end it before its evaluations are used up."""

from archive.records import SearchCounts, SearchRecord
from archive.store import Store
from service.evaluation.figure_labels import relative_to
from service.requests import StopRules

START_S = 600.0
"""Minimum time that a search with the rule `seconds` gets for its first verdict, seconds: a card's first build of the
device kernels, of a large reference and of slow seeds takes minutes."""
START_FACTOR = 5.0
"""Multiple of the rule's value that it gets for its first verdict, if that is longer."""


async def stop_reason(store: Store, search: SearchRecord) -> str:
    """Return which stop rule is met, in words; empty if none is."""
    if search.stop is None:
        return ""
    rules, counts = StopRules.model_validate(search.stop), await store.candidates.count(search.id)
    if over := _time_over(rules, counts):
        return over
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


def time_over(search: SearchRecord, counts: SearchCounts) -> str:
    """Return how long a search has run, in words, if its rule `seconds` is met; else empty."""
    return "" if search.stop is None else _time_over(StopRules.model_validate(search.stop), counts)


def seconds_left(search: SearchRecord, counts: SearchCounts) -> float | None:
    """Return the running time until the rule `seconds` ends a search; None without that rule."""
    allowed_s = None if search.stop is None else StopRules.model_validate(search.stop).seconds
    return None if allowed_s is None else max(0.0, allowed_s - counts.running_ms / 1000)


def _time_over(rules: StopRules, counts: SearchCounts) -> str:
    if rules.seconds is None:
        return ""
    if counts.evaluated:
        ran_s = counts.running_ms / 1000
        met = ran_s >= rules.seconds
        return f"it has run for {ran_s:.0f} s since its first verdict (stop rule: {rules.seconds:g} s)" if met else ""
    start_s = max(START_S, START_FACTOR * rules.seconds)
    if counts.starting_ms < 1000 * start_s:
        return ""
    return f"it had no verdict after {start_s:.0f} s (stop rule: {rules.seconds:g} s from the first verdict)"


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
