import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.assembler import CLASSES, assemble
from workers.assembler.readings import occupancy, residency_limits, resident_programs
from workers.protocol import Bundle, Plan, Readings, Shape
from workers.targets import TARGETS

DIMS = {"M": 4096, "N": 4096}


def readings(bundle: Bundle) -> tuple[Readings, ...]:
    done = assemble(bundle, RMSNORM)
    assert done.outcome is None, done.reason
    return done.readings


def striding(*sizes: tuple[int, int, int]) -> list[bool | None]:
    """`persistent` of plans with (M, N, programs) that launch a kernel whose programs loop."""
    kernel = compiled("rmsnorm").model_copy(update={"assembly": looping(compiled("rmsnorm").assembly)})
    plans = [rmsnorm_plan(kernel, {"M": rows, "N": columns}, programs) for rows, columns, programs in sizes]
    return [reading.persistent for reading in readings(bundle_of(kernel, *plans))]


def looping(text: str) -> str:
    """The kernel with a jump back that is never taken."""
    return text.replace(
        "\tret;", "\t.reg .pred back;\n\tsetp.ne.s32 back, 0, 0;\n$L_again:\n\t@back bra $L_again;\n\tret;", 1
    )


def test_readings_of_a_plan_with_one_launch() -> None:
    kernel = compiled("rmsnorm")
    (read,) = readings(bundle_of(kernel, rmsnorm_plan(kernel, DIMS)))
    assert (read.launches, read.programs, read.num_warps) == (1, 4096, 4)
    assert read.programs_per_sm == pytest.approx(4096 / 132)
    assert read.bytes_required == 2 * 4096 * 4096 * 2 + 4096 * 2
    assert read.bytes_moved is None
    assert (read.load_width_bytes, read.memory_path, read.tensor_core) == (16, "plain", "none")
    assert (read.warp_roles, read.cluster_size, read.accumulators) == ("same", 1, "none")
    assert (read.spill_bytes, read.shared_bytes) == (0, kernel.shared_bytes)
    assert read.registers is not None
    assert read.occupancy in {blocks * 4 / 64 for blocks in range(1, 17)}
    assert tuple(read.instructions) == CLASSES
    assert read.persistent is False


def test_sums_run_over_all_launches() -> None:
    kernel = compiled("rmsnorm")
    once, twice = readings(
        bundle_of(kernel, rmsnorm_plan(kernel, DIMS), rmsnorm_plan(kernel, {"M": 64, "N": 64}, launches=2))
    )
    assert (twice.launches, twice.programs) == (2, 128)
    assert [launch.programs for launch in twice.by_launch] == [64, 64]
    assert [launch.instructions for launch in twice.by_launch] == [once.instructions] * 2
    assert twice.instructions == {name: 2 * count for name, count in once.instructions.items()}
    assert twice.num_warps == once.num_warps


def test_a_plan_without_launches_has_readings_too() -> None:
    kernel = compiled("rmsnorm")
    plain = rmsnorm_plan(kernel, DIMS)
    nothing = Plan(shape=Shape(dims=DIMS), buffers=plain.buffers, steps=plain.steps[:1], outputs=plain.outputs)
    (read,) = readings(bundle_of(kernel, nothing))
    assert (read.launches, read.programs, read.num_warps, read.registers) == (0, 0, 0, None)
    assert read.bytes_required == 2 * 4096 * 4096 * 2 + 4096 * 2


@pytest.mark.parametrize(
    ("sizes", "expected", "why"),
    [
        ([(4096, 4096, 132), (8192, 8192, 132), (3, 5, 3)], [True, True, False], "sized by the device"),
        ([(4096, 4096, 1000), (8192, 8192, 1000)], [True, True], "the same for both"),
        ([(1024, 4096, 1024), (2048, 8192, 2048)], [False, False], "a program a row"),
        ([(1024, 4096, 1024), (2048, 8192, 132)], [False, False], "fewer programs for more work"),
        ([(1024, 4096, 1024)], [False], "nothing to compare with"),
        ([(1024, 4096, 264)], [True], "two on every multiprocessor"),
        ([(4096, 4096, 13200), (8192, 8192, 13200)], [False, False], "more than fit at once"),
    ],
)
def test_a_persistent_grid_does_not_follow_the_shape(
    sizes: list[tuple[int, int, int]], expected: list[bool], why: str
) -> None:
    assert striding(*sizes) == expected, why


def test_a_kernel_without_a_loop_is_not_persistent() -> None:
    kernel = compiled("rmsnorm")
    (read,) = readings(bundle_of(kernel, rmsnorm_plan(kernel, DIMS, programs=132)))
    assert read.persistent is False


SM_90, SM_86, GFX942 = TARGETS["sm_90"], TARGETS["sm_86"], TARGETS["gfx942"]


@pytest.mark.parametrize(
    ("num_warps", "registers", "shared_bytes", "expected", "limit"),
    [
        (4, 32, 0, 16, "threads: 64 warps / 4"),
        (1, 16, 0, 32, "programs"),
        (4, 128, 0, 4, "registers: 4096 a warp, 4 warps a scheduler, 16 / 4"),
        (4, 255, 0, 2, "registers: 8192 a warp after rounding, 2 warps a scheduler"),
        (8, 110, 98304, 2, "shared memory: 233472 / (98304 + 1024)"),
        (4, 33, 0, 12, "registers: 1280 a warp after rounding, 12 warps a scheduler"),
        (32, 64, 0, 1, "registers: 2048 a warp, 8 warps a scheduler, 32 / 32"),
        (32, 128, 0, 0, "registers: not even one"),
    ],
)
def test_the_smallest_limit_counts(
    num_warps: int, registers: int, shared_bytes: int, expected: int, limit: str
) -> None:
    assert resident_programs(SM_90, num_warps, registers, shared_bytes) == expected, limit
    limits = residency_limits(SM_90, num_warps, registers, shared_bytes)
    assert limit.split(":")[0] in {name for name, each in limits.items() if each == expected}


def test_other_sheets_have_other_limits() -> None:
    assert resident_programs(SM_86, 4, 32, 0) == 12
    assert resident_programs(GFX942, 4, 128, 0) == 4
    assert resident_programs(GFX942, 4, 64, 40_000) == 1


def test_occupancy_is_a_share_of_warp_slots() -> None:
    assert occupancy(SM_90, 4, 16) == 1.0
    assert occupancy(SM_90, 8, 2) == 0.25
    assert occupancy(SM_90, 4, 0) == 0.0


@given(st.sampled_from(sorted(TARGETS)), st.integers(1, 32), st.integers(1, 255), st.integers(0, 2**18))
def test_more_of_anything_never_fits_better(target: str, num_warps: int, registers: int, shared_bytes: int) -> None:
    sheet = TARGETS[target]
    fits = resident_programs(sheet, num_warps, registers, shared_bytes)
    assert 0 <= fits <= sheet.blocks_sm
    assert resident_programs(sheet, num_warps, registers + 1, shared_bytes) <= fits
    assert resident_programs(sheet, num_warps, registers, shared_bytes + 1) <= fits
    assert resident_programs(sheet, num_warps + 1, registers, shared_bytes) <= fits
    assert 0 <= occupancy(sheet, num_warps, fits) <= 1
