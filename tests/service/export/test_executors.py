"""Who judges an export: the elites' card, another one that runs the same code, or the interpreter, and it is said."""

import json
import os
import sys
from pathlib import Path

import pytest

import service.export.package
from kernelreef.packages import Package
from service.certificates.document import Certificate, sealed
from service.export.executors import ExportExecutors, card_for
from service.export.package import FURTHER, ExportSource, export
from service.export.selection import ExportCandidate
from service.export.verification import ExportVerifier, VerifiedModule
from service.fleet.devices import NO_CARD, LocalCard
from tests.service import records
from tests.service.export.card_bench import EAGER_US, LARGE_US, OWN_US, SLOW_UP_TO, TURNS
from tests.service.export.pieces import KEYS, OPERATOR, SOURCE, bundle_of, certificate, sampled, traced
from workers.protocol import Device, Outcome

ROOT = Path(__file__).parents[3]
H100, H200, A100 = (Device.parse(name) for name in ("h100", "h200", "a100"))
CARDS = {device.name: LocalCard(number, device.name.upper(), device) for number, device in enumerate((A100, H200))}


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    traced(), bundle_of(OPERATOR.reference, LARGER)  # outside the loop of a test
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    return tmp_path / "notes"


def test_a_card_of_the_class_judges_before_one_of_the_same_target() -> None:
    cards = [*CARDS.values(), LocalCard(2, "H100", H100), LocalCard(3, "unknown", None)]
    found = card_for(H100, cards)
    assert found is not None and found.device == H100
    other = card_for(H100, list(CARDS.values()))
    assert other is not None and other.device == H200
    assert card_for(H100, [CARDS["a100"]]) is None and card_for(H100, [LocalCard(0, "unknown", None)]) is None


@pytest.mark.parametrize(
    ("cards", "reason"), [((), NO_CARD), ((CARDS["a100"],), "here: cuda:0 is a100")], ids=["none", "another"]
)
async def test_without_a_card_that_runs_the_code_the_interpreter_judges_and_the_reason_is_told(
    cards: tuple[LocalCard, ...], reason: str
) -> None:
    async with ExportExecutors(H100, cards=cards) as executors:
        assert (await executors.judging()).name == "model:sm_90"
        note = executors.note(H100)
    assert "no card of the class h100 judged the functions: the interpreter did" in note and reason in note
    assert executors.note(Device.parse("model:sm_90")) == "", "elites of the model are judged as they were found"


async def test_a_card_that_cannot_be_opened_is_named_with_its_reason() -> None:
    async with ExportExecutors(H200, cards=(CARDS["h200"],)) as executors:  # this machine has no card
        assert not (await executors.judging()).measures
        assert "the executor is not ready" in executors.note(H200)


def on_paper(notes: Path, rule: str) -> tuple[str, ...]:
    return (sys.executable, str(ROOT / "tests/service/export/card_bench.py"), str(notes), rule)


async def exported(notes: Path, rule: str) -> tuple[VerifiedModule, str]:
    async with ExportExecutors(H100, command=on_paper(notes, rule), cards=(CARDS["h200"],)) as executors:
        found = await ExportVerifier(executors).verified(certificate(), sampled())
        return found, executors.note(H100)


async def test_a_card_judges_and_times_all_functions_in_one_job(notes: Path) -> None:
    found, note = await exported(notes, "none")
    assert note == "the functions were judged and timed on a card of the class h200, not h100"
    (job,) = notes.read_text().splitlines()
    tried = {key for verdict in found.verdicts for key in verdict.shapes}
    assert job == f"{len(tried)} plans with eager PyTorch on h200"
    assert set(found.times) == sampled().spread < tried, "only spread shapes are timed"
    assert set(found.times.values()) == {OWN_US} and set(found.pytorch.values()) == {EAGER_US}
    for verdict in found.verdicts:
        assert {each.shape for each in verdict.report.shapes} == set(verdict.shapes) & sampled().spread
    assert list(found.stages_s) == ["symbolic", "compile", "open", "judge", "time"]


async def test_functions_that_fail_together_are_judged_apart_and_the_right_ones_are_timed(notes: Path) -> None:
    found, _ = await exported(notes, "odd")
    jobs = notes.read_text().splitlines()
    assert [bool(each.function.assumed) for each in found.verdicts] == [True], "those that 16 divides"
    assert found.verdicts[0].report.outcome is Outcome.CORRECT
    assert [job.split(" plans ")[1] for job in jobs] == [
        "with eager PyTorch on h200",
        "alone on h200",
        "alone on h200",
        "with eager PyTorch on h200",
    ]
    assert any("wrong_result at" in remark and "it is odd" in remark for remark in found.remarks)
    assert found.wrong and found.times and found.module.function_for({"N": 33}) is None


async def packed(notes: Path, rule: str) -> Package:
    """A package of the elite, judged by a card on paper."""

    async def certified(contender: ExportCandidate) -> Certificate:
        return certificate()

    offer = ExportSource([ExportCandidate("c", 0, 1.0, records.report({}))], certified)
    async with ExportExecutors(H100, command=on_paper(notes, rule), cards=(CARDS["h200"],)) as executors:
        return await export(offer, executors=executors)


async def test_further_shapes_are_measured_where_it_is_unsure_what_is_faster(notes: Path) -> None:
    package = await packed(notes, "turns")
    jobs = notes.read_text().splitlines()
    assert len(jobs) in (2, 3) and all("with eager PyTorch" in job for job in jobs)
    counts = [int(job.split()[0]) for job in jobs]
    assert all(count <= FURTHER for count in counts[1:])
    kernel, pytorch = [], []
    for key, name in package.serving.items():
        (pytorch if name == "PyTorch" else kernel).append(int(key[2:]))
    assert len(package.serving) > len(sampled().spread), "those that were measured further are told"
    assert max(kernel) < min(pytorch) and min(pytorch) < 1.2 * TURNS and max(kernel) > 0.5 * TURNS
    assert "expect that between them" in package.files["README.md"]
    told = json.loads(package.files["double_kernels/certificates/elite_0_functions.json"])
    further = [shape["shape"] for each in told for report in each["further"] for shape in report["shapes"]]
    assert len(further) >= 1 and set(further) <= {key for each in told for key in each["shapes"]}
    assert package.stages_s["elite_0"]["further"] >= 0


async def test_a_function_that_is_wrong_at_a_further_shape_is_left_out(notes: Path) -> None:
    package = await packed(notes, "later")
    told = json.loads(package.files["double_kernels/certificates/elite_0_functions.json"])
    assert [each["divisible_by_16"] != [] for each in told] == [True]
    assert any("wrong_result at" in refusal for refusal in package.refusals)
    serving = {int(key[2:]): name for key, name in package.serving.items()}
    assert all(name == "PyTorch" for size, name in serving.items() if size % 16)


LARGER = SOURCE.replace("256", "512")
"""The same with larger blocks."""


async def packed_with_blocks(notes: Path) -> Package:
    """A package of a search that found blocks of 256 best, judged by a card on paper."""
    sources = {"best": SOURCE, "larger": LARGER}

    async def certified(contender: ExportCandidate) -> Certificate:
        source = sources[contender.candidate]
        told = certificate(source, bundle_of(OPERATOR.reference, source))
        return sealed(
            told.model_copy(update={"origin": told.origin.model_copy(update={"candidate": contender.candidate})})
        )

    times = {"best": (2.0, {KEYS[1]: OWN_US}), "larger": (1.5, {KEYS[1]: LARGE_US})}
    contenders = [
        ExportCandidate(name, 0, objective, records.report(time_us), sources[name])
        for name, (objective, time_us) in times.items()
    ]
    async with ExportExecutors(H100, command=on_paper(notes, "blocks"), cards=(CARDS["h200"],)) as executors:
        return await export(ExportSource(contenders, certified), executors=executors)


async def test_an_elite_that_is_better_where_nobody_searched_is_in_the_package(notes: Path) -> None:
    package = await packed_with_blocks(notes)
    serving = {int(key[2:]): name for key, name in package.serving.items()}
    assert serving[1024] == "best"
    assert {name for size, name in serving.items() if size <= SLOW_UP_TO} == {"larger"}
    assert "They launch 4 compiled kernels in all" in package.files["README.md"]


async def test_functions_that_serve_least_are_left_out_of_too_many(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.export.package, "MAX_COMPILED", 3)
    package = await packed_with_blocks(notes)
    assert "They launch 3 compiled kernels in all" in package.files["README.md"]
    counts = [len(json.loads(package.files[f"double_kernels/certificates/elite_{at}_functions.json"])) for at in (0, 1)]
    assert sorted(counts) == [1, 2] and {"best", "larger"} <= set(package.serving.values())


async def test_where_one_is_clearly_faster_nothing_is_measured_further(notes: Path) -> None:
    await packed(notes, "none")
    assert len(notes.read_text().splitlines()) == 1
