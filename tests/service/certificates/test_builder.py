"""From records to a certificate: complete, without names of machines, and without claims of its own."""

import json
from dataclasses import replace

import pytest

from service.certificates.builder import SHARED_SECRET, certify, graph_digests, speedup_of, title_of, trust_of, words_of
from tests.service import records
from tests.service.certificates.evidence import (
    SEED,
    SOURCE,
    WORKER,
    certificate,
    evidence,
    graphs,
    lost,
    measured,
    verdict,
)
from workers.protocol import Graph, Ratio, Trust


def test_predicted_figures_are_called_so_in_the_title() -> None:
    written = certificate()
    assert written.title == "double on model:sm_90: PREDICTED figures; nothing was measured"
    assert (written.provenance, written.relative_to) == ("predicted", "seed kernel")
    assert "MEASURED" not in written.text() and title_of("double", "h200") == "double on h200: MEASURED figures"


def test_an_operator_that_failed_mutation_testing_is_named_in_the_title() -> None:
    known = evidence(verdict())
    assert certify(known).admitted == "" and '"admitted"' not in certify(known).text()
    written = certify(replace(known, search=replace(known.search, admitted="zeros pass")))
    assert written.title.endswith("; ADMITTED against mutation testing") and written.admitted == "zeros pass"


def test_everything_that_the_verdict_rests_on_is_there() -> None:
    written = certificate(measured())
    assert written.bundle == records.bundle_from(SOURCE) and written.bundle_digest == written.verdict.bundle
    assert [len(lines) > 1 for lines in written.words.values()] == [True] * len(records.SHAPES)
    assert set(written.bundle.cubins.values()) == {records.CUBIN}
    assert written.pacer == records.bundle_from(records.SEED).reduced() and written.traced_alike
    assert [shape.samples.candidate_us for shape in written.verdict.shapes if shape.samples] == [(10.0, 10.1)] * 2
    assert written.speedup == Ratio(low=2.9, mid=3.0, high=3.1) and written.place is not None
    assert (written.source, written.configuration) == (SOURCE, {"BLOCK": 128})
    assert written.graphs == graph_digests([Graph.model_validate(graph) for graph in graphs()])
    assert len(set(written.graphs.values())) == len(records.SHAPES)


def test_no_machine_is_named() -> None:
    for report in (verdict(), measured()):
        first = report.model_copy(update={"job": "first"})
        written = certificate(report, reports=(first, lost(report), report))
        assert WORKER not in written.text()
        assert [each.job for each in written.earlier] == ["first"], "what got lost says nothing"


def test_the_secret_is_revealed_where_it_was_this_jobs_alone() -> None:
    assert certificate().verdict.seed == SEED and certificate().left_out == ()
    assert SHARED_SECRET in certificate(measured()).left_out
    (reason,) = certificate(verdict(seed=None)).left_out
    assert "kept it" in reason


def test_the_examination_is_there_or_it_is_unexamined() -> None:
    assert certificate().examination is None
    examined = verdict().model_copy(update={"kind": "final", "job": "candidate-1:0:model:sm_90:final"})
    written = certificate(examination=examined)
    assert written.examination is not None and written.examination.job == examined.job
    assert WORKER not in written.text() and written.id != certificate().id


def test_missing_samples_are_said() -> None:
    report = measured()
    bare = tuple(shape.model_copy(update={"samples": None}) for shape in report.shapes)
    assert any("raw samples" in said for said in certificate(report.model_copy(update={"shapes": bare})).left_out)
    assert not any("raw samples" in said for said in certificate(report).left_out)


def test_a_source_may_be_left_out() -> None:
    written = certify(evidence(verdict()), with_source=False)
    assert written.source is None and written.source_digest == "d" * 64
    assert SOURCE.strip() not in written.text() and "the source" in written.left_out[0]
    assert written.id != certificate().id


def test_a_source_that_no_document_can_hold_is_written_as_it_is_exported() -> None:
    broken = records.candidate(source="# \ud800\n")
    assert certificate(verdict(), candidate=broken).source == "# ?\n"


def test_equal_records_give_equal_certificates() -> None:
    assert certificate().text() == certificate().text()
    assert json.loads(certificate(verdict(), elite=None).text())["place"] is None


def test_speedups_are_the_archives() -> None:
    speedup = speedup_of(verdict(), {"N=1024": 20.0, "N=4096": 20.0}, records.SHAPES)
    assert speedup is not None and (speedup.low, speedup.high) == (2.0, 2.0)
    assert speedup_of(verdict(), {}, records.SHAPES) is None


def test_the_letter_follows_from_the_grounds_and_says_why_it_is_no_better() -> None:
    letter, reasons = trust_of(verdict())
    assert letter is Trust.B and reasons == (
        "the jail lacked ipc, readonly, tmpfs, dev, proc, seccomp",
        "no card has run it",
    )
    assert trust_of(verdict(grounds=None)) == (Trust.B, ("its host did not say what it could guarantee",))


def test_words_need_no_readings() -> None:
    words = words_of(records.bundle(), {})
    assert list(words) == [shape.key for shape in records.SHAPES] and all(words.values())


def test_floors_are_there_where_something_was_measured() -> None:
    assert '"floors"' not in certify(evidence(verdict())).text()
    readings = records.readings().model_copy(update={"bytes_required": 48_000_000})
    shapes = tuple(each.model_copy(update={"readings": readings, "copy_us": 12.0}) for each in measured().shapes)
    written = certify(evidence(measured(shapes=shapes)))
    assert set(written.floors) == {shape.shape for shape in shapes}
    for floor in written.floors.values():
        assert (floor.peak_us, floor.copy_us) == (pytest.approx(10.0), 12.0)
