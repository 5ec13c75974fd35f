"""Confirmed elites are compared with an independent harness, and each difference is explained or open."""

import json
import zipfile
from pathlib import Path

import pytest

from benchmarks.agreement import compared, confirm_job, confirmed, explained, fixed_parts, graphs_of, tally_rows
from tests.gpu.contracts import operators, shapes_of
from tests.service.certificates.evidence import TIMES, certificate, measured
from workers.protocol import Device, ExecutorFailure, Outcome, Ratio, Report, Samples


def confirm(elite_us: float, *, seed_us: float = 20.0, half: float = 0.001) -> Report:
    """A confirm with equal times at each shape; `half` is the half width of its interval."""
    samples = Samples(candidate_us=(elite_us,) * 4, other_us=(seed_us,) * 4, calls=5)
    report, mid = measured(kind="confirm"), seed_us / elite_us
    shapes = tuple(shape.model_copy(update={"samples": samples}) for shape in report.shapes)
    ratio = Ratio(low=mid * (1 - half), mid=mid, high=mid * (1 + half))
    return report.model_copy(update={"shapes": shapes, "over_pacer": ratio})


def outside(elite_us: float, seed_us: float = 19.0) -> dict[str, object]:
    """A row of the harness."""
    ratio = seed_us / elite_us
    timed = {"elite_us": elite_us, "seed_us": seed_us, "low": ratio * 0.9995, "ratio": ratio, "high": ratio * 1.0005}
    return {"independent": ratio, "shapes": dict.fromkeys(TIMES, timed)}


def rows_of(*pairs: tuple[Report, dict[str, object] | None]) -> list[dict[str, object]]:
    """Rows of elites, explained."""
    rows = [compared(certificate(report), report, its) for report, its in pairs]
    fixed = fixed_parts(rows)
    return [row | explained(row, fixed) for row in rows]


def test_a_difference_is_within_or_explained_or_open() -> None:
    rows = rows_of(
        (confirm(19.0), outside(18.01)),
        (confirm(5.0), outside(4.0)),
        (confirm(40.0, half=0.05), outside(40.0)),
        (confirm(10.0), outside(10.0)),
    )
    assert [row["explained"] for row in rows] == ["within", "fixed", "interval", "open"]
    assert rows[1]["difference_percent"] == pytest.approx(100 * (19 / 4 / (20 / 5) - 1))
    assert rows[1]["without_fixed_percent"] == pytest.approx(0.0, abs=1e-9)
    assert fixed_parts(rows) == {(rows[0]["operator"], shape): pytest.approx(1.0) for shape in TIMES}
    found = tally_rows(rows)
    assert (found["within"], found["interval"], found["fixed"], found["open"], found["compared"]) == (1, 1, 1, 1, 4)
    assert found["largest_percent"] == pytest.approx(rows[1]["difference_percent"])


def test_an_elites_own_times_explain_nothing() -> None:
    *_, other = rows_of(*[(confirm(19.0), outside(18.0))] * 3, (confirm(10.0), outside(9.8)))
    assert other["explained"] == "open", "its own part is a fifth of the seed's"


def test_what_was_not_compared_says_why() -> None:
    wrong = confirm(10.0).model_copy(update={"outcome": Outcome.WRONG_RESULT, "reason": "it is wrong"})
    shown = certificate(confirm(10.0))
    lost = compared(shown, ExecutorFailure(error="no card", transient=True), outside(9.0))
    refused, missing = compared(shown, wrong, outside(9.0)), compared(shown, confirm(10.0), None)
    assert [row["failed"] for row in (lost, refused, missing)] == ["no card", "it is wrong", "the harness: no row"]
    rows = [row | explained(row, {}) for row in (lost, refused, missing)]
    assert tally_rows(rows)["compared"] == 0 and not any(row["explained"] for row in rows)


def test_measured_confirms_are_taken_from_a_zip(tmp_path: Path) -> None:
    kinds = {"a": "confirm", "b": "measure"}
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as file:
        for name, kind in kinds.items():
            file.writestr(f"h200/{name}/certificate.json", certificate(measured(kind=kind)).text())
        file.writestr("model/c/certificate.json", certificate().text())
    [found] = confirmed(tmp_path / "one.zip")
    assert found.verdict.kind == "confirm" and found.device.measures


def test_the_best_elites_of_a_zip_are_taken(tmp_path: Path) -> None:
    elites = [{"objective": low, "files": [f"h200/{low}/kernel.py"]} for low in (0.9, 1.2, 1.1)]
    predicted = [{"objective": 9.0, "files": ["model/9.0/kernel.py"]}]
    devices = [{"provenance": "measured", "elites": elites}, {"provenance": "predicted", "elites": predicted}]
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as file:
        file.writestr("manifest.json", json.dumps({"devices": devices}))
        for low in (0.9, 1.2, 1.1):
            shown = certificate(measured(kind="confirm"))
            placed = shown.model_copy(update={"origin": shown.origin.model_copy(update={"candidate": f"{low}"})})
            file.writestr(f"h200/{low}/certificate.json", placed.text())
    assert [each.origin.candidate for each in confirmed(tmp_path / "one.zip", 2)] == ["1.1", "1.2"]
    assert len(list(confirmed(tmp_path / "one.zip"))) == 3


def test_it_is_confirmed_beside_the_seed_at_all_its_shapes() -> None:
    softmax = operators()["softmax"]
    shown = certificate(confirm(10.0)).model_copy(
        update={"operator": softmax, "shapes": shapes_of(softmax)[-2:], "operator_digest": softmax.digest}
    )
    [(digest, graphs)] = graphs_of([shown, shown], "sm_90").items()
    assert digest == softmax.digest and [graph.shape for graph in graphs] == list(shown.shapes)
    job = confirm_job(shown, graphs, Device.parse("h100"))
    assert (job.challenger, job.pacer, job.incumbent) == (shown.bundle, shown.pacer, None)
    assert job.pacer is not None and job.graphs == graphs
