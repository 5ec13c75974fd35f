"""Checks: properties of a correct kernel, one a file, cheap to dear."""

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
"""Checks by name, in the order in which a case is held against them; the first failure ends it."""

__all__ = ["CHECKS", "Check", "CheckEvidence", "CheckFinding", "CheckResults", "Expectation"]
