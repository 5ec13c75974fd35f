"""The verdict on an operator, from the table of trials, with a reason that a person can act on."""

import re
from collections import Counter
from collections.abc import Sequence
from math import comb
from typing import Literal

from workers.protocol import REASON_CHARS, MutationEntry, MutationReport, Operator

LEAST_KILL_RATE = 0.99
"""Share of wrong answers that the checks must find."""
CHANCE = 0.05
"""Probability that checks which find exactly `LEAST_KILL_RATE` miss as many of the wrong answers that were tried. Below
it, the operator fails: one survivor of fifty says nothing, three do."""
KINDS = frozenset({"honest", "trivial", "mutant"})
"""Kinds of answers that must have been tried."""
NAMED = 5
"""Maximum number of survivors that a reason names."""
IGNORED = re.compile(r"^input '(.+)': ignored,")
"""Names of mutants that do not read an input at all. One of them is too many, as with trivial answers."""
REMEDIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^input '"), "give that input `low` and `high` between which it matters, or let `ranges` start lower"),
    (re.compile(r"added up in|arithmetic in|TF32|digit"), "declare a wider `outputs.dtype`"),
    (re.compile(r"constant|epsilon"), "give the inputs `low` and `high` between which that constant matters"),
    (re.compile(r"^output '"), "declare a wider `outputs.dtype`, or return results that do not cancel"),
    (re.compile(r"element|tile|tenth|axis|border|divided"), "let `ranges` start with smaller sizes"),
)
"""Changes of a spec that help, by the names of survivors."""
OTHERWISE = "give the inputs `low` and `high` between which this step matters, or take it out of the reference"


def summed_up(
    operator: Operator, shapes: Sequence[str], entries: Sequence[MutationEntry], seconds: float
) -> MutationReport:
    """Sum up the trials of an operator."""
    wrong = [entry for entry in entries if entry.kind != "honest"]
    counts = Counter(entry.verdict for entry in wrong)
    counted = counts["killed"] + counts["survived"]
    rate = counts["killed"] / counted if counted else None
    verdict: Literal["passed", "failed", "untried"] = "passed"
    notes = [f"there was no time for {counts['untried']} of {len(entries)} answers"] if counts["untried"] else []
    if counts["survived"]:
        notes.append(f"not found: {_names([entry for entry in wrong if entry.verdict == 'survived'])}")
    reason = "; ".join(notes)
    if failure := _failure(operator, entries, counts["survived"], counted):
        verdict, reason = "failed", failure
    elif KINDS - {entry.kind for entry in entries if entry.verdict != "untried"}:
        verdict, reason = "untried", f"{reason or 'nothing was tried'}; let `ranges` start with smaller sizes"
    return MutationReport(
        verdict=verdict,
        reason=reason[:REASON_CHARS],
        shapes=tuple(shapes),
        entries=tuple(entries),
        kill_rate=rate,
        seconds=round(seconds, 3),
    )


def _failure(operator: Operator, entries: Sequence[MutationEntry], missed: int, counted: int) -> str:
    """Return the reason that forbids a search; empty if one may start."""
    rejected = [entry for entry in entries if entry.verdict == "rejected"]
    if rejected:
        worst = max(rejected, key=lambda entry: entry.failures)
        return (
            f"right answers fail: '{worst.name}' fails the check {worst.check} in {worst.failures} of "
            f"{worst.cases} cases ({worst.reason}). If results jump where sums differ by a rounding, return what they "
            "are computed from; if the reference loses digits, compute in float32 (`x.float()`), or keep large terms "
            "from cancelling by `low` and `high` of the inputs"
        )
    survived = [entry for entry in entries if entry.verdict == "survived"]
    accepted = [entry for entry in survived if entry.kind == "trivial"]
    if accepted:
        return (
            f"the checks accept {_names(accepted)} in every case. Results must depend on the inputs, must not all be "
            f"NaN, and must not be too small for {_dtypes(operator)}: see `low` and `high` of the inputs and "
            "`outputs.dtype`"
        )
    unread = [entry for entry in survived if IGNORED.match(entry.name)]
    if unread:
        return f"the checks accept kernels that do not read an input: {_names(unread)}. {_remedies(unread)}"
    if missed and _chance(missed, counted) < CHANCE:
        return (
            f"the checks find {1 - missed / counted:.1%} of the wrong kernels that were tried; {LEAST_KILL_RATE:.0%} "
            f"are required. Not found: {_names(survived)}. {_remedies(survived)}"
        )
    return ""


def _chance(missed: int, counted: int) -> float:
    """Return the probability that so many or more are missed of those counted, if `LEAST_KILL_RATE` are found."""
    rest = 1 - LEAST_KILL_RATE
    fewer = sum(comb(counted, k) * rest**k * LEAST_KILL_RATE ** (counted - k) for k in range(missed))
    return 1 - fewer


def _remedies(entries: Sequence[MutationEntry]) -> str:
    """Return what to change in the spec, in its words, for the survivors."""
    found = (next((text for name, text in REMEDIES if name.search(each.name)), OTHERWISE) for each in entries)
    text = "; ".join(dict.fromkeys(found))
    return text[:1].upper() + text[1:]


def _dtypes(operator: Operator) -> str:
    return ", ".join(dict.fromkeys(output.dtype for output in operator.results))


def _names(entries: Sequence[MutationEntry]) -> str:
    named = "; ".join(f"'{entry.name}'" for entry in entries[:NAMED])
    return named + (f" and {len(entries) - NAMED} more" if len(entries) > NAMED else "")
