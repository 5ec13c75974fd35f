"""What two sittings have in common, and which kernels sit."""

import json
from pathlib import Path

import pytest

from benchmarks.repeatability import compare, join, spread, tally
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
    assert found["spearman_of_all"] == 1.0
    assert 0.4 < found["median_change"] < 0.5


def test_a_sitting_that_was_cut_short_is_compared_as_far_as_it_went():
    first = {f"k{n}": judged("correct", a=1.0 + n / 10) for n in range(6)}
    found = compare(first, {"k0": first["k0"]}, dict.fromkeys(first, "softmax"))
    assert (found["kernels"], found["same_verdict"]) == (1, 1.0)
    assert compare(first, {}, {})["same_verdict"] is None


def test_how_sure_a_rank_correlation_is_comes_of_kernels_drawn_anew():
    first = {f"k{n}": judged("correct", a=1.0 + n / 90) for n in range(40)}
    second = {f"k{n}": judged("correct", a=1.0 + (n + 3 * (n % 2)) / 90) for n in range(40)}
    found = compare(first, second, dict.fromkeys(first, "softmax"))
    low, high = found["spearman_bounds"]
    assert 0.9 < low < found["spearman_of_all"] < high < 1.0
    assert found["near_seed"] == 2 and found["spearman_near_seed"] is None, "too few for ranks"


def test_confirms_of_equal_kernels_are_counted_with_a_bound():
    rival = {"low": 0.99, "mid": 1.0, "high": 1.01}
    won = {"low": 1.006, "mid": 1.02, "high": 1.03}
    rows = [{"rival": rival, "promoted": False}] * 99 + [{"rival": won, "promoted": True}, {"rival": None}]
    found = tally(rows)
    assert (found["confirms"], found["judged"], found["promoted"], found["lower_end_over_1"]) == (101, 100, 1, 1)
    assert found["at_most"] == pytest.approx(0.0545, abs=0.0002)
    assert tally([{"rival": rival, "promoted": False}] * 1000)["at_most"] == pytest.approx(1 - 0.025 ** (1 / 1000))


def test_confirms_of_several_cards_are_joined(tmp_path: Path):
    rival = {"low": 0.99, "mid": 1.0, "high": 1.01}
    for number in range(2):
        rows = [{"sitting": 1}, *({"confirm": f"{number}-{turn}", "rival": rival, "promoted": False} for turn in "ab")]
        (tmp_path / f"{number}.json").write_text(json.dumps({"rows": rows}))
    join([tmp_path / "0.json", tmp_path / "1.json"], tmp_path, 0)
    made = json.loads((tmp_path / "equal.json").read_text())
    assert [row["confirm"] for row in made["rows"]] == ["0-a", "0-b", "1-a", "1-b"]
    assert (made["equal"]["judged"], made["equal"]["promoted"]) == (4, 0)


def test_nothing_that_was_timed_twice_is_no_rank():
    one = {"k": judged("hang")}
    assert compare(one, one, {"k": "softmax"}) == {
        "kernels": 1,
        "same_verdict": 1.0,
        "spearman": {},
        "median_spearman": None,
        "spearman_of_all": None,
        "spearman_bounds": None,
        "near_seed": 0,
        "spearman_near_seed": None,
        "median_change": None,
        "p90_change": None,
    }


def test_every_operator_sits_and_no_kernel_twice():
    kernels = spread(40)
    assert len({kernel.name for kernel in kernels}) == 40
    assert len({kernel.operator for kernel in kernels}) == len(operators())
    assert kernels == spread(40)
