"""`reef profile`: text and JSON of a profile; its making has tests of its own."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.certificates.profiling import ProfiledPlan
from service.cli import app
from service.cli import profile as cli_profile
from service.cli.profile import document, in_words
from service.errors import NotFound
from service.evaluation.floors import ShapeWork
from tests.service.certificates.test_profiling import BYTES, SHAPE, softmax
from workers.protocol import Device, HotInstruction, KernelProfile, ProfileReport
from workers.targets import TARGETS

KERNEL = KernelProfile(
    function="kernel",
    line=18,
    programs=2048,
    num_warps=4,
    registers=24,
    spill_bytes=0,
    shared_bytes=32,
    resident=16,
    limiters=("threads", "registers"),
    occupancy=1.0,
    waves=0.97,
    opcodes={"MUFU": 9, "LDG": 1},
    classes={"special": 9, "load_global": 1},
    hottest=(HotInstruction(offset=16, text="MUFU.EX2 R3, R4", line=13, depth=0, count=8),),
)
COUNTED = KERNEL.model_copy(
    update={
        "time_us": 5.0,
        "counters": {"time_us": 5.25, "dram_percent": 71.5},
        "stalls": {"long_scoreboard": 0.75, "barrier": 0.25},
        "hottest": (
            HotInstruction(offset=16, text="LDG.E \x1b[2J", line=11, samples=30, executed=64, stall="long_scoreboard"),
            HotInstruction(offset=32, text="MUFU.EX2 R3, R4", line=13, samples=10, executed=64, stall="wait"),
        ),
    }
)


def found(**changes: object) -> ProfiledPlan:
    report = ProfileReport(job="p", shape=SHAPE, kernels=(KERNEL,), notes=("without a card",))
    work = ShapeWork(BYTES, 0.0, 1e7)
    return replace(ProfiledPlan(softmax(), Device.parse("model:sm_90"), report, TARGETS["sm_90"], work, 4.0), **changes)


def measured() -> ProfiledPlan:
    told = {"time_us": 5.0, "copy_us": 4.5, "kernels": (COUNTED,), "notes": ()}
    return found(report=found().report.model_copy(update=told), device=Device.parse("h200"))


def test_words_say_whose_time_it_is() -> None:
    assert "a call takes 4.00 us, measured by the verdict" in "\n".join(in_words(found()))
    text = "\n".join(in_words(measured()))
    assert "a call takes 5.00 us, MEASURED here" in text
    assert "1.75 us: 8.39 MB at the peak bandwidth, 35% of it achieved" in text
    assert "4.50 us: a plain copy of as many bytes, measured here, 90% of it achieved" in text
    assert "launch 1: kernel (line 18), 5.00 us" in text
    assert "occupancy 100%: 16 programs at a time, limited by threads and registers; 0.97 waves" in text
    assert "warps wait for: long_scoreboard 75%, barrier 25%" in text


def test_the_document_has_figures_and_source() -> None:
    told = json.loads(json.dumps(document(measured())))
    assert (told["device"], told["measured"], told["time_us"], told["required_bytes"]) == ("h200", True, 5.0, BYTES)
    assert told["floors_us"]["copy"] == 4.5 and told["shares"]["copy"] == pytest.approx(0.9)
    assert told["profile"]["kernels"][0]["stalls"] == {"long_scoreboard": 0.75, "barrier": 0.25}
    assert told["source"]["13"].startswith("e = tl.exp")
    assert not document(found())["measured"]


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("REEF_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    return CliRunner()


def test_an_unknown_candidate_and_an_empty_archive_are_said(profiles: CliRunner) -> None:
    for arguments in (["profile"], ["profile", "01a21c1e-6103-7310-bdfd-2e90abbd152a"]):
        assert isinstance(profiles.invoke(app, arguments).exception, NotFound)


def test_hot_instructions_stand_beside_their_source_and_steer_no_terminal() -> None:
    with cli_profile.out.capture() as printed:
        cli_profile.show(measured())
    text = printed.get()
    assert "\x1b" not in text and "LDG.E ?[2J" in text
    assert "30 (75%) long_scoreboard" in text and "e = tl.exp(x)" in text
    with cli_profile.out.capture() as printed:
        cli_profile.show(found())
    assert "MUFU.EX2 R3, R4 (8 such)" in printed.get() and "Note: without a card" in printed.get()


def test_a_machine_without_the_card_profiles_without_one() -> None:
    told = asyncio.run(cli_profile.profiled(softmax(), None, counters=False))
    assert told.device.name == "model:sm_90" and told.report.kernels[0].hottest
