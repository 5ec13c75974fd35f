import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import module
from workers.assembler import CLASSES
from workers.assembler.machine import InstructionMix, LoopIteration
from workers.assembler.ptx.mix import read_mix
from workers.assembler.ptx.parser import parse


def mix(body: str) -> InstructionMix:
    return read_mix(parse(module(body)).functions)


@pytest.mark.parametrize(
    ("name", "width", "path", "unit", "loops"),
    [
        ("rmsnorm", 16, "plain", "none", False),
        ("matmul", 16, "async", "wgmma", True),
        ("small_matmul", 16, "async", "mma", True),
        ("doubled", 16, "bulk", "none", True),
        ("striding", 16, "plain", "none", True),
    ],
)
def test_real_kernels_are_told_apart(name: str, width: int, path: str, unit: str, loops: bool) -> None:
    found = read_mix(parse(compiled(name).assembly).functions)
    assert (found.load_width_bytes, found.memory_path, found.tensor_core, found.loops) == (width, path, unit, loops)


def test_roles_of_warps_and_the_place_of_sums_are_told_apart() -> None:
    specialised = mix("setmaxnreg.inc.sync.aligned.u32 240; wgmma.fence.sync.aligned;")
    assert (specialised.warp_roles, specialised.accumulators) == ("specialised", "none"), "a fence adds nothing"
    real = read_mix(parse(compiled("matmul").assembly).functions)
    assert (real.warp_roles, real.accumulators) == ("same", "registers")
    product = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;"
    assert mix(product).accumulators == "tensor_memory"
    assert mix("dp4a.u32.u32 %r1, %r2, %r3, %r4;").accumulators == "none"


def test_counts_have_every_class() -> None:
    found = mix("ld.global.b32 %r1, [%rd1]; add.f32 %r2, %r1, %r1; st.global.b32 [%rd1], %r2;").instructions
    assert tuple(found) == CLASSES
    assert (found["load_global"], found["float"], found["store_global"], found["branch"]) == (1, 1, 1, 1)


def test_one_turn_of_the_innermost_loop_is_told_apart() -> None:
    found = mix(
        "outer: ld.global.b32 %r1, [%rd1];"
        "inner: cp.async.ca.shared.global [%r1], [%rd1], 0x8; mul.f32 %r2, %r1, %r1; st.global.b16 [%rd1], %r2;"
        "wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2; @!%p1 bra wait;"
        "@%p1 bra inner; add.f32 %r2, %r1, %r1; @%p1 bra outer;"
    )
    turn = found.turn
    assert [turn.instructions[name] for name in ("load_global", "store_global", "float")] == [1, 1, 1]
    assert (turn.thread_bytes, turn.program_bytes) == (8 + 2, 0)
    assert found.instructions["load_global"] == found.instructions["float"] == 2


def test_results_that_a_flattened_loop_writes_now_and_then_are_no_part_of_its_turns() -> None:
    found = mix(
        "bra again; next: @%p1 bra again; ret;"
        "again: ld.global.b32 %r1, [%rd1]; mul.f32 %r2, %r1, %r1; @%p2 bra next;"
        "mul.f32 %r2, %r2, %r2; mul.f32 %r2, %r2, %r2; st.global.b32 [%rd1], %r2; bra next;"
    )
    assert (found.instructions["float"], found.turn.instructions["float"], found.turn.thread_bytes) == (3, 1, 4)
    assert "store_global" not in found.turn.instructions


def test_bulk_copies_of_a_turn_are_what_its_barriers_wait_for() -> None:
    copy = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r1, %r1}], [%r1];"
    )
    turn = mix(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;"
        f"again: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 49152; {copy} {copy} @%p1 bra again;"
    ).turn
    assert (turn.program_bytes, turn.thread_bytes, turn.instructions["load_global"]) == (49152, 0, 2)
    assert read_mix(parse(compiled("rmsnorm").assembly).functions).turn == LoopIteration({}, 0, 0)


@pytest.mark.parametrize(
    ("body", "width"),
    [
        ("ld.global.b8 %r1, [%rd1];", 1),
        ("ld.global.v2.b16 {%r1, %r2}, [%rd1]; ld.global.b16 %r1, [%rd1];", 4),
        ("ld.global.L1::evict_last.v8.b32 {%r1}, [%rd1];", 32),
        ("ld.shared.v4.b32 {%r1}, [%r1];", 0),
        ("cp.async.ca.shared.global [%r1], [%rd1], 0x8;", 8),
        ("cp.async.ca.shared.global [%r1], [%rd1], %r2;", 0),
        ("ret;", 0),
    ],
)
def test_the_widest_load_counts(body: str, width: int) -> None:
    assert mix(body).load_width_bytes == width


def test_only_a_jump_back_is_a_loop() -> None:
    assert not mix("@%p1 bra $L; $L:").loops
    assert mix("$L: @%p1 bra $L;").loops


def test_barriers_that_are_never_invalidated_are_open():
    begun = "mbarrier.init.shared::cta.b64 [%r1], 1; mbarrier.init.shared::cta.b64 [%r2], 1;"
    assert mix(begun).open_barriers == 2
    assert mix(f"{begun} mbarrier.inval.shared::cta.b64 [%r1];").open_barriers == 1
    ended = "mbarrier.inval.shared::cta.b64 [%r1];"
    assert mix(f"{begun} {ended * 3}").open_barriers == mix("bar.sync 0;").open_barriers == 0
