"""The ledger: holds case after case against the table of checks and keeps what a report says about each."""

from collections.abc import Mapping

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.protocol import CheckResult, Outcome


class CheckResults:
    """Results of a table of checks over the cases of one variant.

    Attributes:
        failure: The first finding with an outcome, if there was one; no case is examined after it.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        """Open a ledger for a table, in whose order cases are examined."""
        self.failure: CheckFinding | None = None
        self._checks = checks
        self._findings: dict[str, CheckFinding] = {}

    def examine(self, evidence: CheckEvidence) -> Outcome | None:
        """Hold one case against the table; returns why it fails, or None."""
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
        """Enter a case that was seen to pass the whole table.

        Args:
            worst: What was measured on the way, by the name of the check whose measure it is.
        """
        for name in self._checks:
            finding = CheckFinding(worst.get(name, 0.0))
            known = self._findings.get(name)
            if known is None or (known.outcome is None and finding.worst > known.worst):
                self._findings[name] = finding

    def results(self) -> tuple[CheckResult, ...]:
        """One result a check, in the table's order."""
        return tuple(self._result(name) for name in self._checks)

    def _result(self, name: str) -> CheckResult:
        finding = self._findings.get(name)
        if finding is None:
            return CheckResult(name=name, verdict="skipped")
        verdict = "passed" if finding.outcome is None else "failed"
        return CheckResult(name=name, verdict=verdict, worst=finding.worst, detail=finding.reason)
