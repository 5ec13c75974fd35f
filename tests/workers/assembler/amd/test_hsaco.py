import pytest

from tests.workers.assembler.kernels import compiled
from workers.assembler.amd.hsaco import assemble_amdgcn
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Outcome
from workers.targets import TARGETS

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
