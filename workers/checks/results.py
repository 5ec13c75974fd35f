"""The results of a table of checks over case after case, as reports state them."""

from collections.abc import Iterable, Mapping

from workers.checks.base import Check, CheckEvidence, CheckFinding, FreshDraws, Observation
from workers.checks.tolerance import GROUP
from workers.protocol import CheckResult, Outcome


class CheckResults:
    """Results of a table of checks over the cases of one variant.

    No case is examined after `failure`, the first finding with an outcome.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        """Start without results; cases are examined in the order of the table."""
        self.failure: CheckFinding | None = None
        self._checks = checks
        self._findings: dict[str, CheckFinding] = {}
        self._observed: dict[str, list[Observation]] = {}

    def examine(self, evidence: CheckEvidence, fresh: FreshDraws | None = None) -> Outcome | None:
        """Examine one case with all checks. Returns the outcome if it fails, None otherwise.

        Args:
            evidence: The case.
            fresh: Runs the candidate again if a statistic is in doubt. If it yields fewer draws than asked for, the
                doubt stays open until `observe` gets the others. If None, a doubt counts as a failure.
        """
        for name, check in self._checks.items():
            finding = check.examine(evidence)
            if finding.doubtful and fresh is not None:
                self._observed[name] = []
                for again in fresh(name, check.draws_for(evidence)):
                    if self.observe(name, again) is not None:
                        return self._outcome
                continue
            if self._record(name, finding) is not None:
                return self._outcome
        return None

    def observe(self, name: str, evidence: CheckEvidence) -> Outcome | None:
        """Add one fresh draw to a check's doubt; the last one decides it. Returns the outcome if the case fails."""
        check = self._checks[name]
        observed = self._observed.setdefault(name, [])
        observed.append(check.observe(evidence))
        if len(observed) < check.draws_for(evidence):
            return None
        return self._record(name, check.decide(evidence, self._observed.pop(name)))

    def clarify(self, evidence: CheckEvidence, later: Iterable[CheckEvidence]) -> None:
        """Take the verdict on a small error from a later case that fails too, if the case has few elements.

        The error of one element is small by chance: a wrong factor was called coarse arithmetic.

        Args:
            evidence: The case that failed.
            later: Cases that come after it; those of few elements are left out.
        """
        if self.failure is None or self.failure.outcome is not Outcome.PRECISION or not _is_small(evidence):
            return
        name = next(name for name, finding in self._findings.items() if finding is self.failure)
        for case in later:
            if not _is_small(case) and (finding := self._checks[name].examine(case)).outcome is not None:
                self._record(name, finding)
                return

    @property
    def undecided(self) -> str:
        """Name of a check whose doubt lacks draws; empty if there is none."""
        return next(iter(self._observed), "")

    @property
    def _outcome(self) -> Outcome | None:
        return self.failure.outcome if self.failure is not None else None

    def _record(self, name: str, finding: CheckFinding) -> Outcome | None:
        worst = self._findings.get(name)
        if worst is None or finding.outcome is not None or finding.worst > worst.worst:
            self._findings[name] = finding
        if finding.outcome is not None:
            self.failure = finding
        return finding.outcome

    def approve(self, worst: Mapping[str, float]) -> None:
        """Record a case that passed the whole table elsewhere, with its measured values by name of check."""
        for name in self._checks:
            finding = CheckFinding(worst.get(name, 0.0))
            known = self._findings.get(name)
            if known is None or (known.outcome is None and finding.worst > known.worst):
                self._findings[name] = finding

    def results(self) -> tuple[CheckResult, ...]:
        """Return one result per check, in the order of the table."""
        return tuple(self._result(name) for name in self._checks)

    def _result(self, name: str) -> CheckResult:
        finding = self._findings.get(name)
        if finding is None:
            return CheckResult(name=name, verdict="skipped")
        verdict = "passed" if finding.outcome is None else "failed"
        return CheckResult(name=name, verdict=verdict, worst=finding.worst, detail=finding.reason)


def _is_small(evidence: CheckEvidence) -> bool:
    return max((output.numel() for output in evidence.outputs), default=0) < GROUP
