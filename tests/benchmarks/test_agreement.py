"""Confirmed elites are compared with an independent harness, and each difference is explained or open."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.agreement import (
    OUR_FORM,
    ConfirmedElite,
    TracedElite,
    compared,
    confirm_job,
    confirmed,
    forms,
    seed_spread,
    tally_rows,
    traced,
    write_slim,
)
from benchmarks.record import RESULTS
from service.certificates.document import Certificate
from tests.gpu.contracts import operators, shapes_of
from tests.service import records
from tests.service.certificates.evidence import SOURCE, TIMES, certificate, graphs, measured
from workers.protocol import Device, ExecutorFailure, Graph, Outcome, Ratio, Report, Samples


def confirm(elite_us: float, *, seed_us: float = 20.0, half: float = 0.001) -> Report:
    """A confirm with equal times at each shape; `half` is the half width of its interval."""
    samples = Samples(candidate_us=(elite_us,) * 4, other_us=(seed_us,) * 4, calls=5)
    report, mid = measured(kind="confirm"), seed_us / elite_us
    shapes = tuple(shape.model_copy(update={"samples": samples}) for shape in report.shapes)
    ratio = Ratio(low=mid * (1 - half), mid=mid, high=mid * (1 + half))
    return report.model_copy(update={"shapes": shapes, "over_pacer": ratio})


def outside(ratio: float, seed_us: float = 19.0, *, calls: int = 5, **forms: float) -> dict[str, object]:
    """A row of the harness; `forms` are ratios of its samples."""
    samples = {form: {"ratio": each, "calls": calls} for form, each in forms.items()}
    bounds = {"low": ratio * 0.9995, "ratio": ratio, "high": ratio * 1.0005}
    timed = {"elite_us": seed_us / ratio, "seed_us": seed_us, **bounds, "samples": samples}
    return {"independent": ratio, "shapes": dict.fromkeys(TIMES, timed)}


def exported(path: Path, *shown: Certificate, provenance: str = "measured") -> Path:
    """A zip file with certificates, in the order of their objectives, as `reef export` writes it."""
    elites = [
        {
            "cell": number,
            "candidate": each.origin.candidate,
            "objective": 2.0 - number,
            "files": [f"h200/{number}/kernel.py"],
        }
        for number, each in enumerate(shown)
    ]
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("operator.json", records.OPERATOR.model_dump_json())
        file.writestr("manifest.json", json.dumps({"devices": [{"provenance": provenance, "elites": elites}]}))
        for number, each in enumerate(shown):
            file.writestr(f"h200/{number}/certificate.json", each.text())
            file.writestr(f"h200/{number}/kernel.py", SOURCE)
    return path


def named(name: str, kind: str = "confirm") -> Certificate:
    """The certificate of a candidate of that name."""
    shown = certificate(measured(kind=kind))
    return shown.model_copy(update={"origin": shown.origin.model_copy(update={"candidate": name})})


def elite(folder: Path) -> TracedElite:
    """A confirmed elite of a zip file with what its trace gave."""
    [found] = confirmed(exported(folder / "one.zip", certificate(confirm(8.0))))
    bundle = records.bundle_from(SOURCE)
    exports = tuple(Graph.model_validate(each) for each in graphs())
    return TracedElite(found, bundle, records.bundle_from(records.SEED).reduced(), exports)


def rows_of(folder: Path, pairs: Sequence[tuple[Report, dict[str, object] | None]]) -> list[dict[str, object]]:
    """Rows of elites."""
    shown = elite(folder)
    return [compared(shown, report, its) for report, its in pairs]


def test_a_difference_is_within_or_explained_or_open(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        (
            (confirm(10.0), outside(2.005, **{OUR_FORM: 2.2})),
            (confirm(10.0, half=0.05), outside(2.1, **{OUR_FORM: 2.2})),
            (confirm(10.0), outside(2.1, **{OUR_FORM: 1.995}, none=2.1)),
            (confirm(10.0), outside(2.1, **{OUR_FORM: 1.98}, none=2.0)),
            (confirm(10.0), outside(2.1)),
            (confirm(10.0), outside(2.1, calls=6, **{OUR_FORM: 2.0})),
        ),
    )
    assert [row["explained"] for row in rows] == ["within", "interval", "sample", "open", "open", "open"]
    assert rows[2]["difference_percent"] == pytest.approx(5.0)
    assert [row["sample_percent"] for row in rows[2:4]] == pytest.approx([-0.25, -1.0])
    assert [row["sample_percent"] for row in rows[4:]] == [None, None], "other samples than ours explain nothing"
    assert rows[0]["same_bundle"] is True
    found = tally_rows(rows)
    assert (found["within"], found["interval"], found["sample"], found["open"], found["compared"]) == (1, 1, 1, 3, 6)
    assert found["largest_percent"] == pytest.approx(5.0)
    assert found["median_change_percent"] == pytest.approx(20.0), "it was 2.5 times as fast then"


def test_the_share_that_agrees_best_with_long_graphs_is_first(tmp_path: Path) -> None:
    pairs = (
        (confirm(10.0), outside(2.0, 20.0, all=2.1, own=2.002)),
        (confirm(10.0), outside(2.0, all=1.992, own=1.992)),
    )
    found = forms(rows_of(tmp_path, pairs))
    assert list(found) == ["own", "all"]
    assert [found[form]["largest_percent"] for form in found] == pytest.approx([-0.4, 5.0])
    assert [found[form]["within"] for form in found] == [2, 1]
    assert seed_spread(rows_of(tmp_path, pairs)) == {
        f"{records.OPERATOR.name} {shape}": pytest.approx(100 / 19) for shape in TIMES
    }


def test_what_was_not_compared_says_why(tmp_path: Path) -> None:
    wrong = confirm(10.0).model_copy(update={"outcome": Outcome.WRONG_RESULT, "reason": "it is wrong"})
    shown = elite(tmp_path)
    lost = compared(shown, ExecutorFailure(error="no card", transient=True), outside(2.0))
    refused, missing = compared(shown, wrong, outside(2.0)), compared(shown, confirm(10.0), None)
    rows = [lost, refused, missing]
    assert [row["failed"] for row in rows] == ["no card", "it is wrong", "the harness: no row"]
    assert tally_rows(rows)["compared"] == 0 and not any(row.get("explained") for row in rows)
    assert (forms(rows), seed_spread(rows)) == ({}, {})


def test_measured_confirms_are_taken_from_a_zip_the_best_first(tmp_path: Path) -> None:
    path = exported(tmp_path / "one.zip", named("a"), named("b", "measure"), named("c"), named("d"))
    assert [each.candidate for each in confirmed(path)] == ["a", "c", "d"]
    assert [each.candidate for each in confirmed(path, 3)] == ["a", "c"]
    predicted = exported(tmp_path / "two.zip", named("a"), certificate(), provenance="predicted")
    assert not list(confirmed(predicted, 2)) and len(list(confirmed(predicted))) == 1


def test_a_slim_zip_has_all_that_is_needed(tmp_path: Path) -> None:
    full = exported(tmp_path / "one.zip", named("a"), named("b", "measure"), named("c"))
    slim = write_slim(full, tmp_path / "slim")
    assert slim.name == f"{records.OPERATOR.name}.zip"
    assert list(confirmed(slim)) == list(confirmed(full)) and list(confirmed(slim, 1)) == list(confirmed(full, 1))
    with zipfile.ZipFile(slim) as file:
        said = json.loads(file.read("h200/0/certificate.json"))
        assert {each["samples"]["calls"] for each in said["verdict"]["shapes"]} == {5}
        assert not {"bundle", "pacer", "earlier"} & set(said) and "h200/0/kernel.py" not in file.namelist()
    assert write_slim(slim, tmp_path / "again").read_bytes() == slim.read_bytes()


def test_the_committed_elites_are_confirmed_ones() -> None:
    found = {path.stem: list(confirmed(path)) for path in (RESULTS / "elites").glob("*.zip")}
    assert {name: len(each) for name, each in found.items()} == {"cross_entropy": 20, "rmsnorm": 20, "softmax": 19}
    for name, each in found.items():
        assert all(one.operator.name == name and one.then for one in each)
        assert len({one.candidate for one in each}) == len(each)


def test_it_is_traced_and_confirmed_beside_the_seed_at_all_its_shapes() -> None:
    softmax = operators()["softmax"]
    shapes = shapes_of(softmax)[-3:]
    shown = ConfirmedElite(softmax, "c", 1, softmax.seeds[1], {}, shapes, "0" * 64, None)
    broken = ConfirmedElite(softmax, "d", 1, "import torch\n", {}, shapes, "0" * 64, None)
    found, refused = traced([shown, broken], "sm_90")
    assert isinstance(found, TracedElite) and [graph.shape for graph in found.graphs] == list(shapes)
    assert isinstance(refused, tuple) and refused[1].startswith("not traced: ") and len(refused[1]) > 20
    job = confirm_job(found, Device.parse("h100"))
    assert (job.challenger, job.pacer, job.incumbent) == (found.bundle, found.pacer, None)
    assert job.operator.baselines == () and job.operator.digest == found.bundle.operator
    assert softmax.baselines is None, "its confirm in a search has all of them"
    assert [plan.shape.key for plan in found.pacer.plans] == [each.key for each in shapes if each.role == "benchmark"]
    assert len(found.bundle.plans) == len(shapes) and job.graphs == found.graphs
