"""Differences from an independent harness are explained or open, by what a run recorded."""

import json
from pathlib import Path

import pytest

from benchmarks.agreement_rows import (
    Records,
    earlier_rows,
    extras,
    forms,
    read_records,
    row_of,
    seed_spread,
    states,
    summary,
    tables,
)

SHAPES = {"N=1": 1.0, "N=2": 3.0}


def confirm(mid: float, *, half: float = 0.001, calls: int = 5, seed_us: float = 20.0) -> dict[str, object]:
    """A confirm with equal times at each shape; `half` is the half width of its interval."""
    timed = {"calls": calls, "elite_us": seed_us / mid, "seed_us": seed_us}
    bounds = {"low": mid * (1 - half), "mid": mid, "high": mid * (1 + half)}
    return {"over_pacer": bounds, "same_bundle": True, "shapes": dict.fromkeys(SHAPES, timed)}


def bounds(ratio: float) -> dict[str, float]:
    """A ratio with its interval."""
    return {"low": ratio * 0.9995, "ratio": ratio, "high": ratio * 1.0005}


def outside(ratio: float, seed_us: float = 19.0, *, calls: int = 5, **forms: float) -> dict[str, object]:
    """A row of the harness; `forms` are ratios of its samples."""
    samples = {
        form: {**bounds(each), "calls": calls, "elite_us": 20.0 / each, "seed_us": 20.0} for form, each in forms.items()
    }
    timed = {"elite_us": seed_us / ratio, "seed_us": seed_us, **bounds(ratio), "samples": samples}
    timed["seed_deciles_us"] = [seed_us + each for each in range(-4, 5)]
    return {"independent": ratio, "shapes": dict.fromkeys(SHAPES, timed)}


def timed_round(seed_us: float, mid: float, *, at_s: float = 1.0, shape: str = "N=1", condition: str = "usual"):
    """A round of three pairs and a truncated sample."""
    return {
        "condition": condition,
        "job": "c",
        "executor": 7,
        "at_s": at_s,
        "operator": "double",
        "shape": shape,
        "control": False,
        "sides": "cpcpcpc",
        "calls": [5] * 6 + [2],
        "us": [seed_us / mid, seed_us] * 3 + [1.0],
        "mhz": [1980.0] * 7,
        "card": {"sm_mhz": 1980, "memory_c": 60 + round(seed_us)},
    }


def row(its: dict[str, object] | None, rounds=(), **confirms: dict[str, object]) -> dict[str, object]:
    """The row of an elite with confirms by condition."""
    lines = {(name, "c"): {"failed": "", **line} for name, line in confirms.items()}
    records = Records(lines, {} if its is None else {"c": its}, rounds)
    begun = {"operator": "double", "cell": 1, "candidate": "c", "then": {"mid": 1.0}}
    return row_of(begun, SHAPES, records)


def test_a_difference_is_within_or_explained_or_open() -> None:
    usual, wide = confirm(2.0), confirm(2.0, half=0.05)
    found = [
        row(outside(2.005, all=2.2), usual=usual),
        row(outside(2.1, all=2.2), usual=wide),
        row(outside(2.1, all=1.995, judge=1.98, none=2.1), usual=usual),
        row(outside(2.1, all=1.98, judge=2.001), usual=usual),
        row(outside(2.1, all=1.98, none=2.0), usual=usual),
        row(outside(2.1), usual=usual),
        row(outside(2.1, all=2.0, calls=6), usual=usual),
    ]
    kinds = ["within", "interval", "sample", "sample", "open", "open", "open"]
    assert [each["explained"] for each in found] == kinds
    assert found[2]["difference_percent"] == pytest.approx(5.0)
    assert [each.get("form") for each in found[2:4]] == ["all", "judge"]
    assert found[2]["forms_percent"] == pytest.approx({"all": -0.25, "judge": -1.0, "none": 5.0})
    assert found[0]["shapes"]["N=1"]["harness"]["seed_range_us"] == [15.0, 23.0]
    assert found[6]["forms_percent"] == {}, "other samples than ours explain nothing"
    tally = summary(found, Records({}, {}, ()))["agreement"]
    assert [tally[kind] for kind in ("within", "interval", "sample", "state", "open")] == [1, 1, 2, 0, 3]
    assert (tally["compared"], tally["close"]) == (7, 1) and tally["largest_percent"] == pytest.approx(5.0)
    assert tally["median_change_percent"] == pytest.approx(100.0), "it was half as fast then"


def shifted(its: dict[str, object], ratio: float, half: float = 0.0, **forms: float) -> dict[str, object]:
    """A row of the harness with long graphs and samples at the judge's places."""
    moved = outside(ratio, **forms)["shapes"]["N=1"] | {"low": ratio - half, "high": ratio + half}
    return its | {"shapes": {shape: each | {"shifted": moved} for shape, each in its["shapes"].items()}}


def test_a_difference_is_explained_by_places_if_it_goes_away_where_ours_lie() -> None:
    its, usual = outside(2.1, judge=1.9), confirm(2.0)
    found = [
        row(shifted(its, 2.004, judge=2.0), usual=usual),
        row(shifted(its, 2.03, 0.03, judge=1.9), usual=usual),
        row(shifted(its, 2.1, judge=1.9, all=2.006), usual=usual),
        row(shifted(its, 2.1, judge=2.02, all=1.9), usual=usual),
        row(shifted(its, 2.1, all=2.02), usual=confirm(2.0, half=0.0096)),
        row(shifted(outside(2.1, judge=2.0), 2.0), usual=usual),
        row(its, usual=usual),
    ]
    assert [(each["explained"], each.get("form")) for each in found] == [
        ("places", "shifted"),
        ("places", "shifted"),
        ("places", "shifted all"),
        ("open", None),
        ("places", "shifted all"),
        ("sample", "judge"),
        ("open", None),
    ]
    percents = {"judge": -5.0, "shifted judge": 0.0, "shifted": 0.2}
    assert found[0]["forms_percent"] == pytest.approx(percents) and found[0]["places_percent"] == pytest.approx(0.2)
    assert found[2]["places_percent"] == pytest.approx(0.3)
    sums = summary(found, Records({}, {}, ()))
    assert (sums["agreement"]["places"], sums["agreement"]["open"]) == (4, 2)
    assert sums["forms"]["shifted"]["from_ours"]["close"] == 2
    extra = {"usual", "harness judge", "harness shifted judge", "harness shifted all"}
    assert sums["extra_us"]["double N=1"]["elite"].keys() == extra, "long graphs are no samples"
    assert "| 4 | 0 | 2 | +5.00 |" in tables(found, sums)


def test_rows_that_a_run_did_not_reach_are_those_of_the_file_before_it(tmp_path: Path) -> None:
    path = tmp_path / "independent.json"
    assert earlier_rows(path) == {}
    rows = [{"candidate": "a", "explained": "open"}, {"candidate": "b", "failed": "no"}]
    rows += [{"candidate": "c", "explained": "open", "session": {"date": "2026-01-01"}}]
    path.write_text(json.dumps({"date": "2026-01-02", "command": "python -m x", "rows": rows}))
    assert earlier_rows(path) == {
        "a": rows[0] | {"session": {"date": "2026-01-02", "command": "python -m x"}},
        "c": rows[2],
    }


def test_a_slow_state_of_the_card_explains_what_fast_rounds_or_one_executor_do_not_show() -> None:
    fast = [timed_round(20.0, 2.1, at_s=each, shape=shape) for each in range(5) for shape in SHAPES]
    slow = [timed_round(21.0, 1.9, at_s=9 + each, shape=shape) for each in range(6) for shape in SHAPES]
    its, usual = outside(2.2, all=2.101), confirm(2.0)
    by_rounds, by_one = row(its, fast + slow, usual=usual), row(its, slow, usual=usual, alone=confirm(2.1))
    assert (by_rounds["explained"], by_rounds["by"], by_rounds["fast"]) == ("state", "fast rounds", pytest.approx(2.1))
    assert (by_one["explained"], by_one["by"]) == ("state", "alone")
    assert by_one["state_percent"] == pytest.approx(100 / 2100)
    assert row(its, slow, usual=usual)["explained"] == "open"
    assert row(its, [each for each in fast if each["shape"] == "N=1"], usual=usual)["fast"] is None
    found = states(fast + slow)["usual double N=1"]
    assert (found["rounds"], found["slow_rounds"]) == (11, 6)
    assert [found[state]["memory_c"] for state in ("fast", "slow")] == [80, 81]
    assert found["slow"]["seed_us"] == 21.0, "a truncated sample does not count"


def test_forms_are_related_to_long_graphs_and_to_ours() -> None:
    its = [outside(2.0, 20.0, all=2.1, own=2.002), outside(2.0, all=1.992, own=1.992)]
    found = [row(each, usual=confirm(2.0), alone=confirm(2.004)) for each in its]
    forms_ = forms(found)
    assert {form: each["from_long"]["close"] for form, each in forms_.items()} == {"all": 1, "own": 2}
    assert forms_["all"]["from_ours"]["largest_percent"] == pytest.approx(5.0)
    assert seed_spread(found) == dict.fromkeys((f"double {shape}" for shape in SHAPES), pytest.approx(100 / 19))
    extra = extras(found)["double N=1"]["seed"]
    assert extra["usual"] == extra["alone"] == pytest.approx(2.5) and extra["harness all"] == pytest.approx(2.5)


def test_what_was_not_compared_says_why() -> None:
    lost = {"over_pacer": None, "shapes": {}, "failed": "it is wrong"}
    found = [
        row(outside(2.0)),
        row(outside(2.0), usual=lost, alone=lost),
        row(None, usual=confirm(2.0)),
        row({"error": "OSError: no"}, usual=confirm(2.0)),
        row({"independent": 2.0, "shapes": {}}, usual=confirm(2.0)),
    ]
    assert [each["failed"] for each in found] == [
        "not confirmed",
        "it is wrong",
        "the harness: no row",
        "the harness: OSError: no",
        "no shape was timed by both",
    ]
    sums = summary(found, Records({}, {}, ()))
    assert sums["agreement"]["compared"] == 0 and not any(each.get("explained") for each in found)
    assert "it is wrong" in tables(found, sums)


def test_of_several_runs_the_last_that_succeeded_counts(tmp_path: Path) -> None:
    again = (
        {"c": confirm(2.0), "d": confirm(3.0), "e": {"over_pacer": None}},
        {"c": confirm(2.1), "d": {"over_pacer": None}},
    )
    outsides = {"c": {"error": "no"}, "d": outside(3.0), "e": outside(4.0)}, {"c": outside(2.1), "d": {"error": "no"}}
    folders = [tmp_path / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        lines = [{"condition": "usual", "candidate": name, **each} for name, each in again[number].items()]
        rounds = [timed_round(20.0 + number, 2.0) | {"job": name} for name in again[number]]
        for name, each in (("confirms", lines), ("rounds", rounds)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in each))
        rows = [{"candidate": name, **each} for name, each in outsides[number].items()]
        (folder / "harness.json").write_text(json.dumps({"rows": rows}))
    records = read_records(folders)
    mids = {name: each["over_pacer"] and each["over_pacer"]["mid"] for (_, name), each in records.confirms.items()}
    assert mids == {"c": 2.1, "d": 3.0, "e": None}
    assert {name: each.get("independent") for name, each in records.harness.items()} == {"c": 2.1, "d": 3.0, "e": 4.0}
    assert {line["job"]: line["us"][1] for line in records.rounds} == {"c": 21.0, "d": 20.0, "e": 20.0}


def test_records_are_read_from_a_folder_and_shown_as_tables(tmp_path: Path) -> None:
    assert read_records([tmp_path]) == Records({}, {}, [])
    rounds = [timed_round(20.0, 2.0, at_s=each) for each in range(8)] + [timed_round(21.0, 2.0, at_s=9.0)]
    control = rounds[0] | {"control": True}
    lines = [{"condition": name, "candidate": "c", **confirm(2.0)} for name in ("usual", "alone")]
    for name, each in (("confirms", lines), ("rounds", [*rounds, control])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in each) + '{"cut')
    rows = [{"candidate": "c", **outside(2.1, all=2.0)}]
    (tmp_path / "harness.json").write_text(json.dumps({"rows": rows}))
    records = read_records([tmp_path])
    assert len(records.rounds) == 9 and len(records.fast) == 8
    found = row_of({"operator": "double", "cell": 1, "candidate": "c", "then": None}, SHAPES, records)
    sums = summary([found], records)
    assert len(sums["rounds"]) == 9 and sums["rounds"][-1]["at_s"] == 9.0
    shown = tables([found], sums)
    assert "| double 1 | 2.0000 | 2.1000 | +5.00 | +0.00 (all) | sample |" in shown
    assert "| usual double N=1 | slow | 1 | 21.0 | 1980 | 1980 |" in shown
    assert len({line.count("|") for line in shown.split("\n\n")[0].splitlines()}) == 1
