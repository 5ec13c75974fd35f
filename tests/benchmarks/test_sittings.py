"""What two sittings have in common, and which kernels sit."""

from benchmarks.sittings import compare, spread
from tests.gpu.contracts import operators


def judged(outcome, **times):
    return {"outcome": outcome, "over_pacer": times}


def test_agreement_is_of_verdicts_and_of_ranks_by_operator_and_shape():
    first = {f"k{n}": judged("correct", a=1.0 + n / 10) for n in range(6)}
    second = {f"k{n}": judged("correct", a=2.0 + n / 10) for n in range(6)}
    second["k5"] = judged("wrong_result")
    found = compare(first, second, dict.fromkeys(first, "softmax"))
    assert found["same_verdict"] == 5 / 6
    assert found["spearman"] == {"softmax a": 1.0} and found["median_spearman"] == 1.0
    assert 0.4 < found["median_change"] < 0.5


def test_nothing_that_was_timed_twice_is_no_rank():
    one = {"k": judged("hang")}
    assert compare(one, one, {"k": "softmax"}) == {
        "kernels": 1,
        "same_verdict": 1.0,
        "spearman": {},
        "median_spearman": None,
        "median_change": None,
        "p90_change": None,
    }


def test_every_operator_sits_and_no_kernel_twice():
    kernels = spread(40)
    assert len({kernel.name for kernel in kernels}) == 40
    assert len({kernel.operator for kernel in kernels}) == len(operators())
    assert kernels == spread(40)
