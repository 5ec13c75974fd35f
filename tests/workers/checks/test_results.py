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


def _biased(factor: float, seed: int = 0):
    return gather(operator("gelu"), "normal", seed, lambda x: (HONEST["gelu"](x.float()) * factor).to(x.dtype))


def test_a_doubt_is_decided_once_by_as_many_fresh_draws_as_its_check_asks_for():
    asked = []

    def fresh(factor):
        def run(check, count):
            asked.append((check, count))
            return (_biased(factor, 1 + number) for number in range(count))

        return run

    wrong, right = CheckResults(CHECKS), CheckResults(CHECKS)
    assert wrong.examine(_biased(1.001), fresh(1.001)) is Outcome.PRECISION
    assert right.examine(_biased(1.001), fresh(1.0)) is None and right.failure is None
    assert asked == [("bias", CHECKS["bias"].pooled)] * 2
    assert CheckResults(CHECKS).examine(_biased(1.001)) is Outcome.PRECISION, "nobody can run it again"
    gross = CheckResults(CHECKS)
    assert gross.examine(_biased(2.0), fresh(1.0)) is Outcome.WRONG_RESULT and len(asked) == 2, "others stand"


def test_a_doubt_stays_open_until_its_last_draw():
    check_results = CheckResults(CHECKS)
    assert check_results.examine(_biased(1.001), lambda check, count: ()) is None
    assert check_results.undecided == "bias"
    found = [check_results.observe("bias", _biased(1.001, 1 + number)) for number in range(CHECKS["bias"].pooled)]
    assert set(found[:-1]) == {None} and found[-1] is Outcome.PRECISION and check_results.undecided == ""


def test_a_small_error_of_one_element_is_called_by_a_later_case():
    """By chance the factor of 2.5 in place of 2 changes a single result by less than a roundoff of bfloat16."""
    op = operator("gelu", "float32")
    single = gather(op, "normal", 0, lambda x: HONEST["gelu"](x) * 1.003, M=1, N=1)
    larger = gather(op, "normal", 0, lambda x: HONEST["gelu"](x) * 1.25)
    right = gather(op, "normal", 0, HONEST["gelu"])
    for later, outcome in (([right, larger], Outcome.WRONG_RESULT), ([right, single], Outcome.PRECISION)):
        check_results = CheckResults(CHECKS)
        assert check_results.examine(single) is Outcome.PRECISION
        check_results.clarify(single, later)
        assert check_results.failure is not None and check_results.failure.outcome is outcome
        (failed,) = (item for item in check_results.results() if item.verdict == "failed")
        assert failed.detail == check_results.failure.reason
    coarse = CheckResults(CHECKS)
    assert coarse.examine(larger) is Outcome.WRONG_RESULT
    coarse.clarify(larger, [single])
    assert coarse.failure is not None and coarse.failure.outcome is Outcome.WRONG_RESULT
