"""Checks: one property of a correct kernel per file, cheap ones first."""

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.checks.bias import Bias
from workers.checks.error_ratio import ErrorRatio
from workers.checks.exact_integers import ExactIntegers
from workers.checks.expectation import Expectation
from workers.checks.output_types import OutputTypes
from workers.checks.results import CheckResults
from workers.checks.special_values import SpecialValues
from workers.checks.untouched_inputs import UntouchedInputs

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (OutputTypes(), UntouchedInputs(), SpecialValues(), ExactIntegers(), ErrorRatio(), Bias())
}
"""Checks by name, in the order in which they examine a case. The first failure ends it."""

__all__ = ["CHECKS", "Check", "CheckEvidence", "CheckFinding", "CheckResults", "Expectation"]
