import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import module
from workers.assembler.ptx.constants import freeze
from workers.assembler.ptx.parser import parse
from workers.assembler.ptx.syntax import PtxFunction
from workers.assembler.refusal import AssemblyRefused

TABLE = ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};"
NAMES = frozenset({"table"})


def frozen(body: str) -> PtxFunction:
    return freeze(parse(module(body, TABLE)).functions[0], NAMES)


def opcodes(function: PtxFunction) -> list[str]:
    return [item.opcode for item in function.instructions]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.global.b32 %r1, [table+4];", "ld.const.b32"),
        ("mov.b64 %rd2, table; ld.global.nc.b32 %r1, [%rd2];", "ld.const.b32"),
        ("mov.u64 %rd2, table; add.s64 %rd3, %rd2, %rd1; ld.global.v2.b32 {%r1, %r2}, [%rd3+8];", "ld.const.v2.b32"),
        (
            "mov.u64 %rd2, table+4; mad.wide.s32 %rd3, %r1, 4, %rd2; ld.global.L1::evict_last.u8 %r1, [%rd3];",
            "ld.const.u8",
        ),
        ("mov.u64 %rd2, table; $L: ld.global.b32 %r1, [%rd2]; add.s64 %rd2, %rd2, 4; bra $L;", "ld.const.b32"),
        ("ld.const.v2.b32 {%r1, %r2}, [table];", "ld.const.v2.b32"),
        ("{ .reg .b64 t; mov.b64 t, table; { ld.global.b32 %r1, [t]; } }", "ld.const.b32"),
    ],
)
def test_loads_from_a_table_become_constant_loads(body: str, expected: str) -> None:
    found = opcodes(frozen(body))
    assert expected in found
    assert not any(item.startswith("ld.global") for item in found)


def test_other_loads_stay_as_they_are() -> None:
    found = opcodes(frozen("mov.b64 %rd2, table; ld.global.b32 %r1, [%rd2]; ld.global.b32 %r2, [%rd1];"))
    assert [item for item in found if item.startswith(("ld.global", "ld.const"))] == ["ld.const.b32", "ld.global.b32"]


@pytest.mark.parametrize(
    "body",
    [
        "st.global.b32 [table], %r1;",
        "mov.b64 %rd2, table; st.global.b32 [%rd2+4], %r1;",
        "mov.b64 %rd2, table; add.s64 %rd3, %rd2, 8; atom.global.add.u32 %r1, [%rd3], 1;",
        "mov.b64 %rd2, table; red.global.add.u32 [%rd2], 1;",
        "mov.b64 %rd2, table; cvta.global.u64 %rd3, %rd2; st.b32 [%rd3], %r1;",
        "mov.b64 %rd2, table; st.global.b64 [%rd1], %rd2;",
        "mov.b64 %rd2, table; st.param.b64 [param0], %rd2;",
        "mov.b64 %rd2, table; call.uni f, (%rd2);",
        "mov.b64 %rd2, table; sub.s64 %rd3, %rd1, %rd2;",
        "mov.b64 %rd2, table; xor.b64 %rd3, %rd2, %rd1;",
        "mov.b64 %rd2, table; mov.b64 %rd2, %rd1; ld.global.b32 %r1, [%rd2];",
        "@%p1 mov.b64 %rd2, table; ld.global.b32 %rd2, [%rd1];",
        "mov.b64 %rd2, table; add.s64 %rd3, %rd2, %rd2; ld.global.b32 %r1, [%rd3];",
        "mov.b64 %rd2, table; mov.b64 {%r1, %r2}, %rd2;",
        "mov.b64 %rd2, table; cp.async.ca.shared.global [%r1], [%rd2], 4;",
        "mov.b64 %rd2, table; ld.b32 %r1, [%rd2];",
        "mov.b64 %rd2, table; ld.shared.b32 %r1, [%rd2];",
        "mov.b32 %r1, table;",
        "@table ret;",
        ".reg .v2 .b64 v; mov.b64 v.x, table;",
        ".reg .v2 .b64 v; mov.b64 v, table; mov.b64 %rd2, v.y;",
        "mov.b64 %rd2, table; mov.b64 %rd3, %rd2.x;",
        "mov.b64 %rd2, table; cvta.const.u64 %rd3, %rd2;",
        "st.const.b32 [table], %r1;",
    ],
)
def test_any_other_use_of_a_tables_address_is_refused(body: str) -> None:
    with pytest.raises(AssemblyRefused, match="module-scope memory"):
        frozen(body)


@pytest.mark.parametrize(
    "body", ["ld.const.b32 %r1, [%rd1];", "cvta.const.u64 %rd2, %rd1;", "cvta.to.const.u64 %rd2, 4;"]
)
def test_the_constant_bank_is_read_at_tables_alone(body: str) -> None:
    with pytest.raises(AssemblyRefused, match="outside of its tables"):
        frozen(body)


def test_libdevices_tables_are_followed_through_real_code() -> None:
    entry = next(item for item in parse(compiled("wave").assembly).functions if item.entry)
    found = opcodes(freeze(entry, frozenset({"__cudart_i2opi_f"})))
    assert any(item.startswith("ld.const") for item in found)
    assert not any(".nc" in item for item in found)


def test_a_function_without_tables_is_itself() -> None:
    entry = parse(module("ld.global.b32 %r1, [%rd1];")).functions[0]
    assert freeze(entry, NAMES) is entry
