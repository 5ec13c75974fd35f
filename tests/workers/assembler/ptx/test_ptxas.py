import re
from dataclasses import replace

import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import kernel_of, module
from workers.assembler.ptx.ptxas import LIMITS, MOST_STACK_BYTES, assemble_all_ptx, assemble_ptx
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Kernel, Outcome
from workers.targets import TARGETS

SM_90 = TARGETS["sm_90"]


@pytest.mark.parametrize("target", [name for name, sheet in TARGETS.items() if sheet.vendor == "nvidia"])
def test_a_kernel_becomes_machine_code_with_readings(target: str) -> None:
    code = assemble_ptx(compiled("rmsnorm", target), TARGETS[target])
    assert code.code.startswith(b"\x7fELF")
    assert 16 <= code.registers <= 128
    assert code.spill_bytes == 0
    assert code.shared_bytes == compiled("rmsnorm", target).shared_bytes
    assert [item.bytes for item in code.parameters] == [8, 8, 8, 4, 4, 8, 8]


def test_machine_code_is_the_same_each_time() -> None:
    kernel = compiled("root")
    assert assemble_ptx(kernel, SM_90).digest == assemble_ptx(kernel, SM_90).digest


def test_kernels_that_share_a_sandbox_get_the_machine_code_that_each_gets_alone() -> None:
    kernels = [compiled(name) for name in ("rmsnorm", "root", "calling", "wave")]
    found = assemble_all_ptx(kernels, SM_90)
    assert found == [assemble_ptx(kernel, SM_90) for kernel in kernels]


def test_of_kernels_that_share_a_sandbox_the_first_refusal_is_the_last_result() -> None:
    """Nothing of a refused kernel, or of one behind it, may pass for another's."""
    whole, clock = compiled("root"), kernel_of(module("mov.u32 %r1, %clock;"))
    unfit = kernel_of(module(".loc 1 12 0\nld.global.cg.L1::evict_last.b32 %r1, [%rd1];"))
    for refused, reason in ((clock, "clock"), (unfit, "evict_last")):
        found = assemble_all_ptx((whole, refused, compiled("wave")), SM_90)
        assert len(found) == 2 and found[0] == assemble_ptx(whole, SM_90)
        assert isinstance(found[1], AssemblyRefused) and reason in found[1].reason
    (late,) = assemble_all_ptx((whole, compiled("wave")), SM_90, replace(LIMITS, wall_s=0.001))
    assert isinstance(late, AssemblyRefused) and "did not finish" in late.reason
    assert late.outcome is Outcome.TRACE_TIMEOUT


def test_a_kernel_that_takes_ptxas_too_long_is_refused_for_that() -> None:
    lines = [f"ld.volatile.global.b64 w{index}, [%rd1+{8 * index}];" for index in range(4000)]
    lines += [f"st.volatile.global.b64 [%rd1+{8 * index}], w{index};" for index in reversed(range(4000))]
    kernel = kernel_of(module("\n".join([".reg .b64 w<4000>;", *lines])))
    (late,) = assemble_all_ptx((kernel,), SM_90, replace(LIMITS, cpu_s=1.0))
    assert isinstance(late, AssemblyRefused) and late.outcome is Outcome.TRACE_TIMEOUT
    assert late.reason.startswith("ptxas used more than 1 s of processor time")


def test_names_comments_and_lines_leave_the_machine_code_as_it_is() -> None:
    kernel = compiled("calling")
    text = re.sub(r"\.loc\t1 (\d+)", lambda found: f".loc\t1 {int(found[1]) + 40}", kernel.assembly)
    text = re.sub(r"_\$_put", "_$_store", text).replace("// -- Begin", "// -- Once more")
    other = kernel.model_copy(update={"assembly": text})
    assert text != kernel.assembly
    assert assemble_ptx(other, SM_90).digest == assemble_ptx(kernel, SM_90).digest


def test_a_table_in_constant_memory_assembles() -> None:
    code = assemble_ptx(compiled("wave"), SM_90)
    assert code.mix.instructions["load_global"] < 4
    assert b".nv.constant3" in code.code
    assert b".nv.global" not in code.code


def test_spills_are_read() -> None:
    lines = [f"ld.volatile.global.b64 w{index}, [%rd1+{8 * index}];" for index in range(60)]
    lines += [f"st.volatile.global.b64 [%rd1+{8 * index}], w{index};" for index in reversed(range(60))]
    body = "\n".join([".reg .b64 w<60>;", *lines])
    roomy = assemble_ptx(kernel_of(module(body)), SM_90)
    tight = assemble_ptx(kernel_of(module(body, limits=".reqntid 128 .maxnreg 32")), SM_90)
    assert roomy.spill_bytes == 0
    assert tight.spill_bytes > 0
    assert tight.registers <= 32 < roomy.registers


def calling(top: str, limits: str, live: int = 0) -> Kernel:
    """A kernel that keeps `live` wide values across a call of `f`, which `top` defines."""
    loads = "".join(f"ld.volatile.global.b64 w{index}, [%rd1+{8 * index}];\n" for index in range(live))
    stores = "".join(f"st.volatile.global.b64 [%rd1+{8 * index}], w{index};\n" for index in reversed(range(live)))
    call = "{ .param .b64 p; st.param.b64 [p], %rd1; call.uni f, (p); }"
    return kernel_of(module(f".reg .b64 w<{live + 1}>;\n{loads}{call}\n{call}\n{stores}", top, limits=limits))


def function(name: str, body: str, live: int = 0) -> str:
    loads = "".join(f"ld.volatile.global.b64 w{index}, [r+{8 * index}];\n" for index in range(live))
    stores = "".join(f"st.volatile.global.b64 [r+{8 * index}], w{index};\n" for index in reversed(range(live)))
    head = f".func {name} (.param .b64 a) {{ .reg .b64 r; .reg .b64 w<{live + 1}>; ld.param.b64 r, [a];"
    return f"{head}\n{loads}{body}\n{stores}ret; }}\n"


LEAF = function("g", "st.volatile.global.b32 [r], 1;")
MIDDLE = function("f", "{ .param .b64 p; st.param.b64 [p], r; call.uni g, (p); }", 4)
TIGHT = ".reqntid 128 .maxnreg 32"


@pytest.mark.parametrize("kernel", [calling(LEAF + MIDDLE, TIGHT, 30), calling(function("f", "", 30), TIGHT)])
def test_a_function_that_may_keep_its_way_back_in_memory_is_refused(kernel: Kernel) -> None:
    with pytest.raises(AssemblyRefused, match="noinline") as caught:
        assemble_ptx(kernel, SM_90)
    assert caught.value.outcome is Outcome.COMPILE_ERROR


@pytest.mark.parametrize("kernel", [compiled("calling"), calling(LEAF + MIDDLE, ".reqntid 128", 30)])
def test_functions_whose_ways_back_stay_in_registers_may_be_called(kernel: Kernel) -> None:
    assert assemble_ptx(kernel, SM_90).spill_bytes == 0


def stacked(size: int, top: str = "", body: str = "") -> Kernel:
    """A kernel with an array of `size` bytes in local memory that has to lie there."""
    array = f".local .align 8 .b8 array[{size}]; mov.b64 %rd2, array; add.s64 %rd3, %rd2, %rd1;"
    return kernel_of(module(f"{array} st.local.b32 [%rd3], 5; ld.local.b32 %r1, [%rd3+8]; {USE} {body}", top))


USE = "st.global.b32 [%rd1], %r1;"
DEEPER = (
    f".func f (.param .b64 a) {{ .reg .b64 %rd<4>; .reg .b32 %r<2>; .local .align 8 .b8 deep[{MOST_STACK_BYTES}]; "
    "ld.param.b64 %rd1, [a]; mov.b64 %rd2, deep; add.s64 %rd3, %rd2, %rd1; "
    f"st.local.b32 [%rd3], 5; ld.local.b32 %r1, [%rd3+8]; {USE} ret; }}"
)
DEEP = "{ .param .b64 p; st.param.b64 [p], %rd1; call f, (p); }"


def test_local_memory_up_to_the_bound_assembles() -> None:
    assert assemble_ptx(stacked(MOST_STACK_BYTES), SM_90).code


@pytest.mark.parametrize("kernel", [stacked(MOST_STACK_BYTES + 8), stacked(500_000), stacked(64, DEEPER, DEEP)])
def test_local_memory_that_a_card_may_not_have_is_refused(kernel: Kernel) -> None:
    with pytest.raises(AssemblyRefused, match="bytes of local memory") as caught:
        assemble_ptx(kernel, SM_90)
    assert caught.value.outcome is Outcome.COMPILE_ERROR


def test_what_ptxas_refuses_comes_with_the_candidates_line() -> None:
    text = module(".loc 1 12 0\nld.global.cg.L1::evict_last.b32 %r1, [%rd1];")
    with pytest.raises(AssemblyRefused, match=r"evict_last.*cannot be combined") as caught:
        assemble_ptx(kernel_of(text), SM_90)
    assert caught.value.line == 12
    assert caught.value.outcome is Outcome.COMPILE_ERROR


def test_assembly_for_another_target_is_refused() -> None:
    with pytest.raises(AssemblyRefused, match="not for sm_80"):
        assemble_ptx(compiled("root"), TARGETS["sm_80"])
