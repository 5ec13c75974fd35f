"""The verdict on an operator, from the table of trials, with a reason that a person can act on."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from workers.protocol import REASON_CHARS, MutationEntry, MutationReport, Operator

LEAST_KILL_RATE = 0.99
"""Minimum share of wrong answers that the checks must find."""
KINDS = frozenset({"honest", "trivial", "mutant"})
"""Kinds of answers that must have been tried."""
NAMED = 5
"""Maximum number of survivors that a reason names."""


def summed_up(
    operator: Operator, shapes: Sequence[str], entries: Sequence[MutationEntry], seconds: float
) -> MutationReport:
    """Sum up the trials of an operator."""
    wrong = [entry for entry in entries if entry.kind != "honest"]
    counts = Counter(entry.verdict for entry in wrong)
    counted = counts["killed"] + counts["survived"]
    rate = counts["killed"] / counted if counted else None
    verdict: Literal["passed", "failed", "untried"] = "passed"
    reason = f"there was no time for {counts['untried']} of {len(entries)} answers" if counts["untried"] else ""
    if failure := _failure(operator, entries, rate):
        verdict, reason = "failed", failure
    elif KINDS - {entry.kind for entry in entries if entry.verdict != "untried"}:
        verdict, reason = "untried", f"{reason or 'nothing was tried'}; declare ranges with smaller sizes"
    return MutationReport(
        verdict=verdict,
        reason=reason[:REASON_CHARS],
        shapes=tuple(shapes),
        entries=tuple(entries),
        kill_rate=rate,
        seconds=round(seconds, 3),
    )


def _failure(operator: Operator, entries: Sequence[MutationEntry], rate: float | None) -> str:
    """Return the reason that forbids a search; empty if one may start."""
    rejected = [entry for entry in entries if entry.verdict == "rejected"]
    if rejected:
        worst = max(rejected, key=lambda entry: entry.failures)
        return (
            f"right answers fail: '{worst.name}' fails the check {worst.check} in {worst.failures} of "
            f"{worst.cases} cases ({worst.reason}). Do results jump where sums differ by a rounding, or does the "
            "reference lose what float64 keeps?"
        )
    accepted = [entry for entry in entries if entry.kind == "trivial" and entry.verdict == "survived"]
    if accepted:
        return (
            f"the checks accept {_names(accepted)} in every case. Results must depend on the inputs, must not all be "
            f"NaN, and must not be too small for {_dtypes(operator)}"
        )
    if rate is not None and rate < LEAST_KILL_RATE:
        missed = [entry for entry in entries if entry.verdict == "survived"]
        return (
            f"the checks find {rate:.1%} of the wrong kernels that were tried; {LEAST_KILL_RATE:.0%} are required. "
            f"Not found: {_names(missed)}. Does every input matter at small shapes, do its bounds include the values "
            f"for which it matters, and does {_dtypes(operator)} have digits for the results?"
        )
    return ""


def _dtypes(operator: Operator) -> str:
    return ", ".join(dict.fromkeys(output.dtype for output in operator.results))


def _names(entries: Sequence[MutationEntry]) -> str:
    named = "; ".join(f"'{entry.name}'" for entry in entries[:NAMED])
    return named + (f" and {len(entries) - NAMED} more" if len(entries) > NAMED else "")
