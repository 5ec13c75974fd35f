import pytest

from tests.workers.protocol.documents import KERNEL, LAUNCH, PLAN, POINTER, VIEW, bundle, changed
from workers.protocol import Plan, Readings
from workers.protocol.words import describe, describe_plan, describe_readings

KERNELS = {KERNEL.digest: KERNEL}


def step(document: object, at: int = 1) -> str:
    """The words for one step of a plan, without its number."""
    plan = Plan.model_validate(changed(PLAN, ("steps", at), document))
    lines = [line for line in describe_plan(plan, KERNELS) if line.startswith(f"{at + 1}. ")]
    assert len(lines) == 1
    return lines[0].partition(". ")[2]


def test_a_whole_plan_in_words() -> None:
    assert describe(bundle()) == [
        "plan 1 of 1 for sm_90, configuration width = 16",
        "shape M=8,N=16 (benchmark)",
        "given: buffer 0 (input 0), 512 B",
        "1. allocate buffer 1: 512 B",
        "2. fill buffer 1 (float32, 8 x 16) with 0.0",
        "3. launch double (line 7) on 8 programs of 4 warps with x = buffer 0 (input 0) as float32, "
        "y = buffer 1 as float32, n = 16; width = 16",
        "output 0: buffer 1 (float32, 8 x 16)",
    ]


def test_readings_are_told_when_they_are_known() -> None:
    readings = Readings(
        launches=1,
        programs=8,
        programs_per_sm=0.1,
        num_warps=4,
        registers=51,
        spill_bytes=0,
        occupancy=0.5625,
        memory_path="async",
        bytes_required=2**25,
        bytes_moved=3 * 2**24,
        persistent=True,
    )
    assert describe(bundle(), readings=readings)[-2:] == [
        "machine code: 51 registers a thread, 0 bytes spilled, async memory path, occupancy 56%, persistent",
        "memory: must move 32 MiB, moves 48 MiB",
    ]
    assert describe_readings(Readings(launches=0, programs=0, programs_per_sm=0, num_warps=0)) == []
    left = Readings(launches=1, programs=1, programs_per_sm=1, num_warps=4, open_barriers=3)
    assert describe_readings(left) == [
        "machine code: 3 barriers left open: may be wrong on a card that it has to share"
    ]


def test_copies_name_both_sides() -> None:
    source = {**VIEW, "buffer": 0, "dtype": "int32"}
    assert step({"op": "copy", "source": source, "target": VIEW}) == (
        "copy buffer 0 (input 0) (int32, 8 x 16) to buffer 1 (float32, 8 x 16)"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [4, 16]}, "part of buffer 1 (float32, 4 x 16)"),
        ({"shape": [4, 16], "offset_bytes": 64}, "part of buffer 1 from byte 64 (float32, 4 x 16)"),
        ({"shape": [16, 8], "strides": [1, 16]}, "part of buffer 1 (float32, 16 x 8 with strides 1, 16)"),
        ({"shape": [], "strides": []}, "part of buffer 1 (float32, one element)"),
        ({"shape": [1, 128], "strides": [999, 1]}, "buffer 1 (float32, 1 x 128)"),
    ],
)
def test_views_say_what_part_they_are(change: dict[str, object], words: str) -> None:
    assert step({"op": "fill", "target": {**VIEW, **change}, "value": 1}) == f"fill {words} with 1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": [2, 3, 1]}, "on 6 programs (2 x 3 x 1) of 4 warps with"),
        ({"grid": [1, 1, 1]}, "on 1 program of 4 warps with"),
        (
            {"arguments": [{**POINTER, "offset_bytes": 4, "extent_bytes": 8}]},
            "argument 0 = buffer 0 (input 0) from byte 4",
        ),
        ({"constants": {"mode": "relu", "low": None}}, "; mode = 'relu', low = None"),
    ],
)
def test_launches_say_where_and_with_what(change: dict[str, object], words: str) -> None:
    assert words in step({**LAUNCH, **change}, at=2)


def test_hostile_names_cannot_draw_on_a_terminal() -> None:
    said = step({**LAUNCH, "function": "evil\x1b[2J\nname", "constants": {"mode": "\x1b[31m"}}, at=2)
    assert "\x1b" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (33554432, "32 MiB"), (2**35, "32 GiB")],
)
def test_sizes_are_told_in_their_largest_unit(size: int, words: str) -> None:
    plan = Plan.model_validate(
        {"shape": PLAN["shape"], "buffers": [{"id": 0, "bytes": size, "input": 0}], "steps": [], "outputs": []}
    )
    assert describe_plan(plan, {})[1:] == [f"given: buffer 0 (input 0), {words}", "no steps"]


def test_a_plan_that_is_not_there_is_an_error() -> None:
    with pytest.raises(IndexError):
        describe(bundle(), 5)
