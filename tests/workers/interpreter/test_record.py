"""The record of a kernel's compilation."""

import json

import pytest
from triton import language as tl

from tests.workers.devices.kernels import HEADER, HOST, KERNEL, job_for
from workers import sandbox
from workers.interpreter.extract import extract_module
from workers.interpreter.recompilation import launch_key, recompile
from workers.interpreter.record import describe, format_description

LIMITS = sandbox.SandboxLimits(wall_s=60.0, cpu_s=60.0)
MORE = """
    kept = n_cols
    for k in tl.static_range(2):
        kept = part(kept, k)
    other = kept
    for k in range(2):
        other = kept
        kept += 1
    tl.store("""
PART = "@triton.jit\ndef part(x, k):\n    return x if k == 0 else x + k\n\n\n"
SOURCE = HEADER + PART + KERNEL.replace("\n    tl.store(", MORE).replace("cols, y,", "cols, y + other * 0.0,") + HOST


def recorded() -> list[list[object]]:
    """Return a launch's functions with arguments, descriptions by iteration, and names that loops do not carry."""
    job = job_for(SOURCE)

    def found(request: bytes) -> bytes:
        plan = job.bundle.plans[0]
        (launch,) = plan.launches
        record = recompile(extract_module(job.source), job.bundle.target, [plan], job.bundle.kernels)[
            launch_key(launch)
        ]
        told_of = []
        for (name, arguments), sheet in record.items():
            assert sheet is not None
            lines = [(turns, key, found) for turns, page in sheet.items() for key, found in page.items()]
            had = [[turns, found] for turns, key, found in lines if isinstance(key, int)]
            kept = [sorted(found) for _, key, found in lines if not isinstance(key, int)]
            told_of.append([name, arguments, had, kept])
        return json.dumps(told_of).encode()

    result = sandbox.run(found, b"", LIMITS)
    assert result.ending is sandbox.SandboxEnding.RETURNED, result.detail
    return json.loads(result.reply)


def test_specialisations_turns_and_loops_are_written_down() -> None:
    first, second, kernel = recorded()
    assert first[:2] == ["part", ["int32", ["int", "0"]]]
    assert second[:2] == ["part", ["int32", ["int", "1"]]]
    assert [[], ["bool", "True"]] in first[2]
    assert [[], ["bool", "False"]] in second[2]
    assert kernel[0] == "kernel"
    assert {json.dumps(turns) for turns, _ in kernel[2]} == {"[]", "[0]", "[1]"}
    (kept,) = kernel[3]
    assert "other" in kept
    assert "kept" not in kept


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (tl.constexpr(3), "int 3"),
        (3, "int 3"),
        (True, "bool True"),
        ((1, tl.constexpr(None)), "(int 1, NoneType None)"),
        (tl.float32, "dtype fp32"),
        (tl.cdiv, "a function cdiv"),
        (iter(()), "tuple_iterator "),
    ],
)
def test_a_value_is_told_in_words(value: object, words: str) -> None:
    assert format_description(describe(value)) == words
