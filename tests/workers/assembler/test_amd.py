import re

import pytest

from tests.workers.assembler.kernels import compiled
from workers.assembler import CLASSES
from workers.assembler.amd import assemble_amdgcn, lint_amdgcn
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Kernel, Outcome
from workers.targets import TARGETS


def altered(insertion: str, name: str = "root") -> Kernel:
    """A kernel with a line slipped in before its end."""
    kernel = compiled(name, "gfx942")
    text = kernel.assembly.replace("\ts_endpgm", f"\t{insertion}\n\ts_endpgm", 1)
    assert text != kernel.assembly
    return kernel.model_copy(update={"assembly": text})


@pytest.mark.parametrize(
    ("name", "width", "unit", "loops"),
    [
        ("rmsnorm", 16, "none", False),
        ("matmul", 16, "mma", True),
        ("striding", 16, "none", True),
        ("wave", 4, "none", False),
    ],
)
def test_honest_kernels_are_read(name: str, width: int, unit: str, loops: bool) -> None:
    kernel = compiled(name, "gfx942")
    read = lint_amdgcn(kernel)
    assert (read.mix.load_width_bytes, read.mix.tensor_core, read.mix.loops) == (width, unit, loops)
    assert tuple(read.mix.instructions) == CLASSES
    assert read.mix.instructions["load_global"] > 0
    assert (read.mix.turn.thread_bytes > 0) == loops and read.mix.turn.program_bytes == 0
    assert read.shared_bytes == kernel.shared_bytes
    declared = re.search(r"\.vgpr_count: +(\d+)", kernel.assembly)
    assert declared is not None
    assert read.registers >= int(declared[1])


def test_parameters_are_the_plans_and_the_scratch_pointers() -> None:
    sizes = [item.bytes for item in lint_amdgcn(compiled("scalars", "gfx942")).parameters]
    assert sizes == [8, 2, 2, 4, 8, 1, 1, 2, 8, 8, 8]
    assert [item.type for item in lint_amdgcn(compiled("striding", "gfx942")).parameters].count("pointer") == 4


def test_comments_and_debug_lines_are_left_out() -> None:
    kernel = compiled("rmsnorm", "gfx942")
    read = lint_amdgcn(kernel)
    assert ".loc" not in read.text
    assert ".debug" not in read.text
    moved = re.sub(r"\.loc\t1 (\d+)", lambda found: f".loc\t1 {int(found[1]) + 9}", kernel.assembly)
    other = kernel.model_copy(update={"assembly": moved.replace("\ts_endpgm", "\ts_endpgm ; done // twice")})
    assert lint_amdgcn(other).text == read.text


@pytest.mark.parametrize(
    ("insertion", "reason"),
    [
        ("s_memtime s[0:1]", "clocks"),
        ("s_memrealtime s[0:1]", "clocks"),
        ("s_getreg_b32 s0, hwreg(HW_REG_SHADER_CYCLES)", "clocks"),
        ("s_sendmsg sendmsg(MSG_INTERRUPT)", "messages"),
        ("s_sleep 1", "stop"),
        ("s_trap 2", "stop"),
        ("s_swappc_b64 s[30:31], s[2:3]", "functions"),
        ("s_setpc_b64 s[30:31]", "functions"),
        ("s_setreg_b32 hwreg(HW_REG_TRAPSTS), s0", "registers"),
        ("global_atomic_add v0, v1, s[0:1] sc0 sc1", "system scope"),
        ("frobnicate v0, v1", "no instruction"),
        ("v_mov_b32_e32 v0, v1 /* */", "characters"),
        ("v_mov_b32_e32 v0, 0x1\0", "characters"),
        ('# 1 "file"', "no instruction"),
        ('.incbin "/etc/passwd"', "directive"),
        ('.include "/etc/passwd"', "directive"),
        (".macro s_endpgm", "directive"),
        (".byte 1", "directive"),
        (".data", "section"),
        (".bss", "section"),
        ('.section .mine,"aw",@progbits', "section"),
        (".pushsection .data", "section"),
        (".globl other", "directive"),
    ],
)
def test_what_plans_may_not_hold_is_refused(insertion: str, reason: str) -> None:
    with pytest.raises(AssemblyRefused, match=reason):
        lint_amdgcn(altered(insertion))


def test_system_scope_of_a_real_kernel_is_refused() -> None:
    with pytest.raises(AssemblyRefused, match="scope='gpu'"):
        lint_amdgcn(compiled("crossing", "gfx942"))


@pytest.mark.parametrize("name", ["hidden_block_count_x", "hidden_dynamic_lds_size"])
def test_sizes_of_the_launch_may_be_asked_for(name: str) -> None:
    assert name in lint_amdgcn(asking(name)).text


@pytest.mark.parametrize("name", ["hidden_hostcall_buffer", "hidden_heap_v1", "hidden_queue_ptr"])
def test_ways_to_the_host_may_not(name: str) -> None:
    with pytest.raises(AssemblyRefused, match=f"{name}|device_print"):
        lint_amdgcn(asking(name))


def asking(name: str) -> Kernel:
    """A kernel that the runtime is to give another argument."""
    kernel = compiled("rmsnorm", "gfx942")
    last = "        .offset:         40\n        .size:           8\n        .value_kind:     global_buffer\n"
    more = f"      - .offset:         48\n        .size:           4\n        .value_kind:     {name}\n"
    assert last in kernel.assembly
    return kernel.model_copy(update={"assembly": kernel.assembly.replace(last, last + more)})


def test_prints_and_asserts_are_refused() -> None:
    for name in ("printing", "asserting"):
        with pytest.raises(AssemblyRefused, match="device_print"):
            lint_amdgcn(compiled(name, "gfx942"))


@pytest.mark.parametrize(
    ("pattern", "replacement", "reason"),
    [
        (r"\.max_flat_workgroup_size: \d+", ".max_flat_workgroup_size: 64", "64 threads"),
        (r"\.name: +kernel", ".name: other", "exactly one kernel"),
        (r"\.amdhsa_kernel kernel", ".amdhsa_kernel other", "exactly one entry"),
        (r"user_sgpr_dispatch_id 0", "user_sgpr_dispatch_id 1", "one launch from another"),
        (r"user_sgpr_queue_ptr 0", "user_sgpr_queue_ptr 1", "one launch from another"),
        (r"\t\.amdgpu_metadata", "", "no metadata"),
        (r"value_kind:     by_value", "value_kind: hidden_heap_v1", "metadata"),
        (r"kernel:", "other:", "exactly one entry"),
    ],
)
def test_an_entry_must_be_what_the_plan_says(pattern: str, replacement: str, reason: str) -> None:
    kernel = compiled("root", "gfx942")
    text = re.sub(pattern, replacement, kernel.assembly)
    assert text != kernel.assembly
    with pytest.raises(AssemblyRefused, match=reason):
        lint_amdgcn(kernel.model_copy(update={"assembly": text}))


GFX942 = TARGETS["gfx942"]


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", ["rmsnorm", "matmul"])
def test_a_kernel_becomes_machine_code_with_readings(name: str, target: str) -> None:
    code = assemble_amdgcn(compiled(name, target), TARGETS[target])
    assert code.code.startswith(b"\x7fELF")
    assert 8 <= code.registers <= 512
    assert code.spill_bytes == 0


def test_machine_code_is_the_same_each_time() -> None:
    kernel = compiled("root", "gfx942")
    assert assemble_amdgcn(kernel, GFX942).digest == assemble_amdgcn(kernel, GFX942).digest


def test_what_the_assembler_refuses_is_a_compile_error() -> None:
    kernel = compiled("root", "gfx942")
    text = kernel.assembly.replace("\ts_endpgm", "\tv_add_f32_e32 v0, v1\n\ts_endpgm", 1)
    with pytest.raises(AssemblyRefused) as caught:
        assemble_amdgcn(kernel.model_copy(update={"assembly": text}), GFX942)
    assert caught.value.outcome is Outcome.COMPILE_ERROR


def test_assembly_for_another_target_is_refused() -> None:
    with pytest.raises(AssemblyRefused, match="not for gfx90a"):
        assemble_amdgcn(compiled("root", "gfx942"), TARGETS["gfx90a"])
