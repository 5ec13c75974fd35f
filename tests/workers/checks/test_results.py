"""The ledger keeps the worst of every check, and stops at the first failure."""

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks import CHECKS
from workers.checks.results import CheckResults
from workers.protocol import Outcome


def test_every_check_has_a_result_in_the_tables_order():
    check_results = CheckResults(CHECKS)
    assert [(item.name, item.verdict) for item in check_results.results()] == [(name, "skipped") for name in CHECKS]
    assert check_results.examine(gather(operator("gelu"), "normal", 0, HONEST["gelu"])) is None
    assert {item.verdict for item in check_results.results()} == {"passed"} and check_results.failure is None


def test_a_failure_is_kept_with_its_reason():
    check_results = CheckResults(CHECKS)
    assert check_results.examine(gather(operator("gelu"), "normal", 0, lambda x: x * 0)) is Outcome.WRONG_RESULT
    failed = [item for item in check_results.results() if item.verdict == "failed"]
    assert len(failed) == 1 and check_results.failure is not None and failed[0].detail == check_results.failure.reason


def test_the_worst_case_is_the_one_reported():
    check_results, worst = CheckResults(CHECKS), []
    for seed in range(3):
        evidence = gather(operator("softmax"), "normal", seed, HONEST["softmax"])
        check_results.examine(evidence)
        worst.append(CHECKS["error_ratio"].examine(evidence).worst)
    assert next(item.worst for item in check_results.results() if item.name == "error_ratio") == max(worst)
