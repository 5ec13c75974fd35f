"""Facts of launches from real machine code, and counters laid over its instructions."""

from dataclasses import replace

import pytest

from tests.workers.devices.kernels import PLAIN, SOFTMAX, job_of_lines
from workers.assembler import AssembledBundle, assemble
from workers.assembler.sass import SassInstruction
from workers.profiler import launches
from workers.profiler.counters import CountedInstruction, CountedLaunch
from workers.profiler.launches import hottest, profile_launches, with_counters
from workers.protocol import Bundle
from workers.protocol.profile import MAX_HOTTEST
from workers.targets import TARGETS

TARGET = TARGETS["sm_90"]
LOOP = (
    SassInstruction(0x00, "MUFU.RCP R1, R2", 5),
    SassInstruction(0x10, "LDG.E.128 R4, desc[UR4][R2.64]", 7),
    SassInstruction(0x20, "LDG.E.128 R8, desc[UR4][R2.64+0x10]", 7),
    SassInstruction(0x30, "FFMA R1, R4, R8, R1", 8),
    SassInstruction(0x40, "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24", 9),
    SassInstruction(0x50, "@P0 BRA `(.L_x_0)", 6, 0x10),
    SassInstruction(0x60, "STG.E desc[UR4][R2.64], R1", 10),
)


@pytest.fixture(scope="module")
def softmax() -> tuple[AssembledBundle, Bundle]:
    plain, lined = job_of_lines(PLAIN)
    return assemble(plain, SOFTMAX), lined


def test_a_launch_is_profiled_by_its_machine_code(softmax: tuple[AssembledBundle, Bundle]) -> None:
    assembled, lined = softmax
    assert assembled.bundle is not None
    (found,), instructions, notes = profile_launches(assembled.bundle, assembled.codes, TARGET, lined)
    (readings,) = assembled.readings
    assert (found.programs, found.num_warps, found.registers) == (2048, readings.num_warps, readings.registers)
    assert (found.occupancy, found.spill_bytes) == (readings.occupancy, 0)
    assert found.waves == pytest.approx(2048 / (132 * found.resident)) and found.limiters
    (code,) = instructions.values()
    assert sum(found.opcodes.values()) == sum(found.classes.values()) == len(code)
    assert found.opcodes["MUFU"] == found.classes["special"] >= 2
    assert all(hot.line for hot in found.hottest) and len(found.hottest) == MAX_HOTTEST
    assert notes == []


def test_without_the_source_there_are_no_lines_and_a_note(softmax: tuple[AssembledBundle, Bundle]) -> None:
    assembled, _ = softmax
    assert assembled.bundle is not None
    (found,), _, notes = profile_launches(assembled.bundle, assembled.codes, TARGET)
    assert found.opcodes and {hot.line for hot in found.hottest} == {None}
    (note,) = notes
    assert "no lines beside the instructions" in note


def test_without_instructions_the_resources_are_left(softmax: tuple[AssembledBundle, Bundle]) -> None:
    assembled, lined = softmax
    assert assembled.bundle is not None
    codes = {digest: replace(code, code=b"no ELF file") for digest, code in assembled.codes.items()}
    (found,), _, notes = profile_launches(assembled.bundle, codes, TARGET, lined)
    assert (found.hottest, found.opcodes) == ((), {}) and found.registers and found.waves
    (note,) = notes
    assert note.startswith("no instructions: nvdisasm does not read the machine code")


def test_without_counters_loops_come_first_then_issue_cycles() -> None:
    found = hottest(LOOP)
    assert [(hot.text.split()[0], hot.depth, hot.count) for hot in found[:4]] == [
        ("HGMMA.64x64x16.F32.BF16", 1, 1),
        ("LDG.E.128", 1, 2),
        ("@P0", 1, 1),
        ("FFMA", 1, 1),
    ]
    assert [(hot.depth, hot.offset) for hot in found[4:]] == [(0, 0x00), (0, 0x60)]
    assert 2 * launches.ISSUE_CYCLES["load_global"] < launches.MATRIX_CYCLES


def counted(*samples: int) -> CountedLaunch:
    rows = [
        CountedInstruction(each.text.replace("`(.L_x_0)", "0x7f00"), many, 64, "wait")
        for each, many in zip(LOOP, samples, strict=True)
    ]
    return CountedLaunch({"time_us": 4.5}, {"wait": 1.0}, [*rows, CountedInstruction("BRA 0x7f90", 9, 9, "wait")])


def profile(softmax: tuple[AssembledBundle, Bundle]) -> launches.KernelProfile:
    assembled, _ = softmax
    assert assembled.bundle is not None
    return profile_launches(assembled.bundle, assembled.codes, TARGET)[0][0]


def test_with_counters_samples_come_first_beside_lines_and_loops(softmax: tuple[AssembledBundle, Bundle]) -> None:
    found = with_counters(profile(softmax), counted(0, 40, 3, 0, 200, 0, 7), LOOP)
    assert [(hot.samples, hot.line, hot.depth, hot.executed, hot.stall) for hot in found.hottest] == [
        (200, 9, 1, 64, "wait"),
        (40, 7, 1, 64, "wait"),
        (7, 10, 0, 64, "wait"),
        (3, 7, 1, 64, "wait"),
    ]
    assert (found.counters, found.stalls) == ({"time_us": 4.5}, {"wait": 1.0})


def test_instructions_of_other_code_are_not_mixed_in(softmax: tuple[AssembledBundle, Bundle]) -> None:
    one = profile(softmax)
    for rows in (counted(0, 40, 3, 0, 200, 0, 7).instructions[1:], ()):
        found = with_counters(one, CountedLaunch({"time_us": 4.5}, {}, rows), LOOP)
        assert found.hottest == one.hottest and found.counters == {"time_us": 4.5}
