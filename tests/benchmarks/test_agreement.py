"""Confirmed elites of zip files are confirmed again in several conditions, beside an independent harness."""

import json
import sys
import zipfile
from argparse import ArgumentTypeError, Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import agreement
from benchmarks.agreement import (
    ChosenConfirms,
    ConfirmedElite,
    TracedElite,
    confirm_again,
    confirm_job,
    confirm_line,
    confirmed,
    main,
    observed,
    portable,
    put_first,
    traced,
    write_slim,
)
from benchmarks.figures import TimeAllowance
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


def test_the_harness_goes_on_in_a_new_process_after_an_error_of_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    program = f"""
import sys
from pathlib import Path
log = Path({str(log)!r})
with log.open("a") as file:
    print(*sys.argv[1:], file=file)
sys.exit([{agreement.BROKEN}, {agreement.BROKEN}, 0, 3][len(log.read_text().splitlines()) - 1])
"""
    (tmp_path / "paper_harness.py").write_text(program)
    monkeypatch.setattr(agreement, "HARNESS", "paper_harness")
    monkeypatch.setattr(agreement, "visible_card", str)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    chosen = Namespace(archives=[Path("one.zip")], seconds=0.1, first=["double/7"], draws=6, card=0)
    agreement.timed_outside(chosen, 5, tmp_path / "harness.json", 60.0)
    first, *others = log.read_text().splitlines()
    assert "--processes" in first and "--resume" not in first and "--first double/7 --draws 6" in first
    assert len(others) == 2 and all("--resume" in line and "--processes" not in line for line in others)
    limits = [float(line.rpartition("--limit ")[2].split()[0]) for line in (first, *others)]
    assert 60.0 >= limits[0] > limits[1] > limits[2] > 0.0
    with pytest.raises(SystemExit, match="status 3"):
        agreement.timed_outside(chosen, 5, tmp_path / "harness.json", 60.0)
    with pytest.raises(SystemExit, match=f"status {agreement.BROKEN}"):
        agreement.timed_outside(chosen, 5, tmp_path / "harness.json", 0.0)


def test_what_is_recorded_of_a_confirm(tmp_path: Path) -> None:
    shown = elite(tmp_path)
    line = confirm_line("alone", shown, confirm(10.0))
    assert (line["condition"], line["same_bundle"], line["over_pacer"]["mid"]) == ("alone", True, 2.0)
    assert line["shapes"] == {shape: {"calls": 5, "elite_us": 10.0, "seed_us": 20.0} for shape in TIMES}
    wrong = confirm(10.0).model_copy(update={"outcome": Outcome.WRONG_RESULT, "reason": "it is wrong"})
    lost = ExecutorFailure(error="no card", transient=True)
    assert [confirm_line("usual", shown, each)["failed"] for each in (wrong, lost)] == ["it is wrong", "no card"]


def test_confirms_are_of_some_elites_operators_in_turn(tmp_path: Path) -> None:
    shown = elite(tmp_path)
    other = replace(shown.elite, operator=shown.elite.operator.model_copy(update={"name": "other"}))
    elites = [
        replace(shown, elite=replace(each, candidate=name))
        for each, name in ((shown.elite, "a"), (shown.elite, "b"), (shown.elite, "c"), (other, "d"), (other, "e"))
    ]
    name = shown.elite.operator.name
    for text, expected in (("usual", "adbec"), (f"alone:{name}/2", "ac"), ("alone:other", "de"), ("alone:none", "")):
        assert "".join(each.elite.candidate for each in ChosenConfirms.parse(text).of(elites)) == expected
    for text in ("unusual", "usual:other/x", "usual:other/0"):
        with pytest.raises(ArgumentTypeError, match="usual, alone"):
            ChosenConfirms.parse(text)


def test_elites_of_some_names_come_first(tmp_path: Path) -> None:
    shown = elite(tmp_path)
    elites = [replace(shown, elite=replace(shown.elite, cell=cell)) for cell in range(5)]
    name = shown.elite.operator.name
    for first, cells in (([f"{name}/3", f"{name}/1", "other"], "31024"), ([name, f"{name}/1"], "02341")):
        assert "".join(str(each.elite.cell) for each in put_first(elites, first)) == cells


def test_executors_are_observed_in_their_condition(tmp_path: Path) -> None:
    command = observed("alone", Device.parse("h100"), 0, tmp_path, tmp_path / "rounds.jsonl")
    said = " ".join(command[command.index("--rounds") + 2 :])
    assert said == f"--condition alone --device h100 --card cuda:0 --data {tmp_path}"
    assert "cuda:0/3" in observed("usual", Device.parse("h100"), 0, tmp_path, tmp_path / "rounds.jsonl")


def test_no_confirm_is_begun_when_the_time_is_up(tmp_path: Path) -> None:
    [(shown, answer)] = confirm_again([elite(tmp_path)], Device.parse("h100"), 3, ["false"], TimeAllowance(-1.0))
    assert isinstance(answer, ExecutorFailure) and answer.error == "no time was left" and shown.elite.cell is not None


def test_a_command_is_kept_without_places_of_one_machine() -> None:
    said = "python -m benchmarks.agreement a.zip --recorded /tmp/x --limit 5 --out /tmp/y"
    assert portable(said) == "python -m benchmarks.agreement a.zip --limit 5"


def test_rows_are_made_anew_from_what_a_run_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = exported(tmp_path / "two.zip", named("a"), named("b"))
    left = tmp_path / "left"
    left.mkdir()
    header = {"machine": {"gpu": "H200"}, "versions": {}, "date": "2026-01-01", "command": "python -m x --out /tmp/y"}
    (left / "independent.json").write_text(json.dumps(header))
    line = {**confirm_line("usual", elite(tmp_path), confirm(10.0)), "candidate": "a"}
    (left / "confirms.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setattr(sys, "argv", ["agreement.py", str(archive), "--recorded", str(left), "--out", str(tmp_path)])
    main()
    found = json.loads((tmp_path / "independent.json").read_text())
    assert (found["machine"], found["date"], found["command"]) == ({"gpu": "H200"}, "2026-01-01", "python -m x")
    assert [row["failed"] for row in found["rows"]] == ["the harness: no row", "not confirmed"]
    was = {"candidate": "b", "explained": "within", "difference_percent": 0.1}
    (tmp_path / "independent.json").write_text(json.dumps(header | {"date": "2025-12-31", "rows": [was]}))
    main()
    one, other = json.loads((tmp_path / "independent.json").read_text())["rows"]
    assert one["failed"] and other == was | {"session": {"date": "2025-12-31", "command": header["command"]}}


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
