"""The results of a table of checks over case after case, as reports state them."""

from collections.abc import Mapping

from workers.checks.base import Check, CheckEvidence, CheckFinding
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

    def examine(self, evidence: CheckEvidence) -> Outcome | None:
        """Examine one case with all checks. Returns the outcome if it fails, None otherwise."""
        for name, check in self._checks.items():
            finding = check.examine(evidence)
            worst = self._findings.get(name)
            if worst is None or finding.outcome is not None or finding.worst > worst.worst:
                self._findings[name] = finding
            if finding.outcome is not None:
                self.failure = finding
                return finding.outcome
        return None

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
