import pytest

from workers.assembler import CLASSES
from workers.assembler.ptx.instructions import (
    PRAGMAS,
    REFUSED_HEADS,
    REFUSED_REGISTERS,
    SPECIAL_REGISTERS,
    access_bytes,
    classify,
    is_known,
)
from workers.assembler.ptx.syntax import PtxInstruction

CASES = {
    "ld.global.v4.b32": "load_global",
    "ld.b32": "load_global",
    "ld.volatile.global.b32": "load_global",
    "cp.async.cg.shared.global": "load_global",
    "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes": "load_global",
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group": "store_global",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32": "atomic",
    "cp.async.wait_group": "other",
    "st.global.b32": "store_global",
    "st.shared::cluster.b32": "store_shared",
    "ld.shared.b32": "load_shared",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": "load_shared",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16": "store_shared",
    "ld.param.b64": "other",
    "ld.local.b32": "other",
    "ld.const.b32": "other",
    "atom.global.gpu.acq_rel.add.f32": "atomic",
    "red.global.add.f32": "atomic",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": "matrix",
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16": "matrix",
    "tcgen05.mma.cta_group::1.kind::f16": "matrix",
    "fma.rn.f32": "float",
    "add.bf16x2": "float",
    "setp.lt.f32": "float",
    "div.full.f32": "special",
    "ex2.approx.ftz.f32": "special",
    "add.s64": "integer",
    "div.u32": "integer",
    "setp.lt.s32": "integer",
    "cvt.rn.bf16x2.f32": "convert",
    "bra.uni": "branch",
    "bar.sync": "barrier",
    "mbarrier.try_wait.parity.shared::cta.b64": "barrier",
    "selp.f32": "other",
    "shfl.sync.bfly.b32": "other",
}


@pytest.mark.parametrize(("opcode", "expected"), CASES.items())
def test_every_instruction_has_its_class(opcode: str, expected: str) -> None:
    assert is_known(PtxInstruction(opcode))
    assert classify(PtxInstruction(opcode)) == expected


def test_the_cases_cover_every_class() -> None:
    assert set(CASES.values()) == set(CLASSES)


def test_what_is_refused_is_not_known() -> None:
    assert not any(is_known(PtxInstruction(head)) for head in REFUSED_HEADS)
    assert not any(name.startswith(refused) for name in SPECIAL_REGISTERS for refused in REFUSED_REGISTERS)


@pytest.mark.parametrize("opcode", ["", "frobnicate.b32", "LD.global.b32", "clusterlaunchcontrol.try_cancel.async"])
def test_what_is_not_listed_is_not_known(opcode: str) -> None:
    assert not is_known(PtxInstruction(opcode))


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("ld.param.b64", 8),
        ("ld.global.v4.b32", 16),
        ("ld.global.v8.f32", 32),
        ("st.shared.u8", 1),
        ("ld.b128", 16),
        ("ld.f16x2", 4),
        ("ld.param.v2", 0),
        ("ld", 0),
    ],
)
def test_an_access_has_its_width(opcode: str, expected: int) -> None:
    assert access_bytes(PtxInstruction(opcode)) == expected


@pytest.mark.parametrize(
    ("text", "known"),
    [("nounroll", True), ("used_bytes_mask 0xfff", True), ("nounroll x=1", False), ("used_bytes_mask", False)],
)
def test_a_hint_is_known_as_a_whole(text: str, known: bool) -> None:
    assert bool(PRAGMAS.fullmatch(text)) is known
