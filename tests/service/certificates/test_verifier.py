"""A certificate repeated: by stand-in benches in every case, by real ones in `tests/journeys/test_certificates.py`."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from service.certificates.builder import certify
from service.certificates.comparison import StepOutcome, Verification
from service.certificates.document import Certificate, LoadedCertificate, sealed
from service.certificates.verifier import Verifier
from tests.service import records
from tests.service.certificates.evidence import SOURCE, TIMES, certificate, evidence, measured, verdict
from workers.protocol import TraceReport

ROOT = Path(__file__).parents[3]
SEED = records.bundle_from(records.SEED)
"""What the stand-in traces the operator's first seed to."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    return tmp_path / "notes"


async def verified(written: Certificate, notes: Path, **cards: int) -> Verification:
    command = (sys.executable, str(ROOT / "tests/service/stand_in_bench.py"), str(notes))
    return await Verifier(cards=cards, command=command).verify(
        LoadedCertificate(certificate=written, digest=sealed(written).id)
    )


def found(done: Verification) -> dict[str, str]:
    return {step.name: step.found.name for step in done.steps}


async def test_everything_is_repeated_where_everything_is_to_be_had(notes: Path) -> None:
    done = await verified(certificate(), notes)
    assert set(found(done).values()) == {"REPEATED"} and done.holds, done.steps
    assert list(found(done)) == [
        "digest",
        "claims",
        "shapes",
        "rules",
        "machine code",
        "trace",
        "reference",
        "correctness",
        "fresh inputs",
        "times",
        "baselines",
    ]
    assert done.untried == ()


async def test_on_its_card_it_runs_beside_its_pacer(notes: Path) -> None:
    done = await verified(certificate(measured()), notes, h200=3)
    assert done.device is not None and done.device.name == "h200"
    told = notes.read_text()
    assert "measure --device h200 --card cuda:3" in told
    assert f"{records.bundle_from(SOURCE).identity} beside {SEED.reduced().identity} within 900" in told
    assert (found(done)["correctness"], found(done)["pacer"]) == ("REPEATED", "REPEATED")
    assert found(done)["baselines"] == "NOT_TRIED", "this bench times no baselines"


async def test_an_invented_pacer_is_found_out_and_not_run(notes: Path) -> None:
    slow = certificate(measured(), pacer=records.bundle(3).reduced())
    for cards in ({"h200": 3}, {}):
        done = await verified(slow, notes, **cards)
        assert found(done)["pacer"] == "DIFFERS" and not done.holds
    told = notes.read_text()
    assert f"beside {SEED.reduced().identity}" in told and records.bundle(3).reduced().identity not in told


async def test_invented_times_of_the_seed_are_found_out(notes: Path) -> None:
    slow = certificate(baseline_us=dict.fromkeys(TIMES, 125.0))
    assert slow.speedup is not None and slow.speedup.mid == pytest.approx(12.5)
    done = await verified(slow, notes)
    assert {name for name, said in found(done).items() if said == "DIFFERS"} == {"baselines"} and not done.holds


@pytest.mark.parametrize(
    ("first", "told"), [("# does not compile\n", "REPEATED"), ("x = 1\n", "DIFFERS")], ids=["refused", "right"]
)
async def test_figures_over_a_later_seed_need_the_earlier_ones_to_be_refused(
    notes: Path, first: str, told: str
) -> None:
    operator = records.OPERATOR.model_copy(update={"seeds": (first, records.SEED)})
    search = replace(evidence(verdict()).search, reference_seed=1, refused_seeds="figures relate to seed 1")
    written = certificate(operator=operator, search=search)
    assert (written.reference_seed, written.refused_seeds) == (1, "figures relate to seed 1")
    done = await verified(written, notes)
    assert found(done)["earlier seeds"] == told and found(done)["baselines"] == "REPEATED"


async def test_a_refusal_on_a_card_need_not_repeat_elsewhere(notes: Path) -> None:
    operator = records.OPERATOR.model_copy(update={"seeds": ("x = 1\n", records.SEED)})
    search = replace(evidence(measured()).search, reference_seed=1)
    written = certificate(measured(), operator=operator, search=search)
    done = await verified(written, notes)
    assert found(done)["earlier seeds"] == "NOT_TRIED"


async def test_without_a_seed_nobody_knows_what_figures_are_relative_to(notes: Path) -> None:
    bare = certificate(measured(), operator=records.OPERATOR.model_copy(update={"seeds": ()}))
    done = await verified(bare, notes, h200=3)
    assert found(done)["pacer"] == "NOT_TRIED" and "pacer" in done.untried


async def test_without_its_card_the_interpreter_runs_its_source(notes: Path) -> None:
    done = await verified(certificate(measured()), notes)
    assert done.device is not None and done.device.name == "model:sm_90"
    assert (found(done)["correctness"], found(done)["times"], done.holds) == ("REPEATED", "NOT_TRIED", True)
    assert done.untried == ("times", "baselines") and found(done)["pacer"] == "REPEATED"
    assert "beside None" in notes.read_text(), "the interpreter times nothing"


async def test_without_card_and_source_nothing_can_be_run(notes: Path) -> None:
    done = await verified(certify(evidence(measured()), with_source=False), notes)
    assert done.device is None and not done.holds
    assert {name for name, said in found(done).items() if said == "NOT_TRIED"} == {
        "trace",
        "correctness",
        "fresh inputs",
        "times",
        "baselines",
    }
    reasons = {step.name: step.reason for step in done.steps}
    assert reasons["trace"] == "the certificate has no source"
    assert reasons["times"] == "this machine has no h200, and there is no source for the interpreter"


async def test_another_source_is_found_out(notes: Path) -> None:
    done = await verified(sealed(certificate().model_copy(update={"source": "x" * 7})), notes)
    assert found(done)["trace"] == "DIFFERS" and not done.holds
    other = verdict(versions={"triton": "3.6.0"})
    unlike = Verifier(cards={})._compared("trace", False, report("3.7.1"), certificate(other), ())
    assert unlike.found is StepOutcome.NOT_TRIED and "triton 3.7.1 instead of 3.6.0" in unlike.reason


async def test_other_machine_code_is_found_out(notes: Path) -> None:
    written = certificate()
    digests = dict.fromkeys(written.bundle.cubins, "0" * 64)
    forged = written.model_copy(update={"bundle": written.bundle.model_copy(update={"cubins": digests})})
    done = await verified(sealed(forged), notes)
    assert {"digest", "machine code"} <= {name for name, said in found(done).items() if said == "DIFFERS"}


async def test_another_reference_is_found_out(notes: Path) -> None:
    done = await verified(sealed(certificate().model_copy(update={"graphs": {"N=4": "0" * 64}})), notes)
    assert found(done)["reference"] == "DIFFERS" and not done.holds


def report(triton: str) -> TraceReport:
    return TraceReport(job="t", search="s", worker="w", versions={"triton": triton}, outcome="correct")
