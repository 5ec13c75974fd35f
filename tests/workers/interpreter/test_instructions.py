"""Accesses to global memory in the text of machine code."""

import pytest

from tests.workers.devices.kernels import PLAIN, job_for
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.instructions import MemoryInstructions, read, require_written
from workers.protocol import Fill, Kernel


def code(text: str, language: str = "ptx") -> MemoryInstructions:
    return read(Kernel(language=language, assembly=text, target="sm_90", num_warps=4))


KNOWN = {
    "ret;": (False, 0),
    "ld.param.b64 %rd7, [kernel_param_2];": (False, 0),
    "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r4+896];\n@%p5 st.shared.b32 [ %r21 + 0 ], %r22;": (False, 0),
    "st.async.shared::cluster.b32 [%r1], %r2, [%r3];\natom.shared.add.u32 %r1, [%r2], 1;": (False, 0),
    "@%p1 ld.global.b16 { %rs1 }, [ %rd1 + 0 ];": (False, 2),
    "@%p1 ld.global.L1::evict_last.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];": (False, 16),
    "cp.async.cg.shared.global [ %r82 + 0 ], [ %rd26 + 0 ], 0x10, %r83;": (False, 16),
    "cp.async.ca.shared.global [ %r82 + 0 ], [ %rd26 + 0 ], 0x4, %r83;\ncp.async.wait_group 0;": (False, 4),
    "@%p41 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r7], [%rd1, {%r1}], [%r5];": (
        False, 0,
    ),
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd26, {%r1}], [%r102];": (True, 0),
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd26, {%r1}], [%r102];": (True, 0),
    "@%p2 st.global.v2.b32 [ %rd6 + 0 ], { %r59, %r60 };": (True, 8),
    "st.b8 [%rd1], %rs1;": (True, 1),
    "@%p1 atom.global.gpu.acq_rel.add.f32 %r1, [ %rd1 + 0 ], %r2;": (True, 4),
    "red.global.add.v2.f32 [%rd1], {%f1, %f2};": (True, 8),
    "redux.sync.add.s32 %r1, %r2, -1;": (False, 0),
}  # fmt: skip


@pytest.mark.parametrize("text", KNOWN)
def test_what_an_instruction_does(text: str):
    assert code(f"{{\n\t{text}\n}}\n") == MemoryInstructions(*KNOWN[text])


def test_of_other_machines_nothing_is_known():
    assert code("s_endpgm", "amdgcn") == MemoryInstructions() == MemoryInstructions(True, 16)


def test_outputs_that_nothing_could_write_are_refused():
    plan = job_for(PLAIN).bundle.benchmarks[0]
    digests = {launch.kernel for launch in plan.launches}
    silent = dict.fromkeys(digests, MemoryInstructions(writes=False))
    require_written(plan, dict.fromkeys(digests, MemoryInstructions()))
    with pytest.raises(NotInterpretable, match="at M=2048,N=1024 no kernel that gets output 0 has an instruction"):
        require_written(plan, silent)
    fill = Fill(target=plan.outputs[0], value=0.0)
    require_written(plan.model_copy(update={"steps": (*plan.steps, fill)}), silent)
