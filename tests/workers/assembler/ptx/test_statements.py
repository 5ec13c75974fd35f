import pytest

from workers.assembler.ptx.cursor import TokenCursor
from workers.assembler.ptx.statements import parse_block, parse_variable
from workers.assembler.ptx.syntax import PtxInstruction, PtxLabel, PtxPragma, PtxVariable, Statement
from workers.assembler.refusal import AssemblyRefused


def statements(text: str) -> list[Statement]:
    return list(parse_block(TokenCursor("{" + text + "}")).walk())


def test_an_instruction_has_guard_opcode_and_operands() -> None:
    assert statements("@!%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1 + 4], %rd2;") == [
        PtxInstruction(
            "ld.global.v2.b32",
            (("{", "%r1", ",", "%r2", "}"), ("[", "%rd1", "+", "4", "]"), ("%rd2",)),
            ("!", "%p1"),
        )
    ]


def test_registers_and_local_memory_are_declared() -> None:
    assert statements(".reg .b32 %r<5>, t; .local .align 8 .b8 depot[24]; .param .b64 p0;") == [
        PtxVariable("reg", "b32", "%r", count=5),
        PtxVariable("reg", "b32", "t"),
        PtxVariable("local", "b8", "depot", attributes=("align 8",), extents=("24",)),
        PtxVariable("param", "b64", "p0"),
    ]


def test_labels_jump_tables_and_hints() -> None:
    assert statements('$L1: table: .branchtargets $L1, $L2; .pragma "nounroll";') == [
        PtxLabel("$L1"),
        PtxLabel("table", ("$L1", "$L2")),
        PtxPragma("nounroll"),
    ]


def test_calls_keep_their_brackets() -> None:
    assert statements("call.uni (retval0), f, (param0, param1);") == [
        PtxInstruction("call.uni", (("(", "retval0", ")"), ("f",), ("(", "param0", ",", "param1", ")")))
    ]


def test_blocks_nest() -> None:
    assert statements("{ ret; { ret; } }") == [PtxInstruction("ret"), PtxInstruction("ret")]


@pytest.mark.parametrize(
    "text",
    [
        "ld .global.b32 %r1, [%rd1];",
        "st/**/.global.b32 [%rd1], %r1;",
        "mov.b32 %r1, [%rd1;",
        "mov.b32 %r1, %rd1];",
        "mov.b32 %r1, ([%rd1)];",
        'mov.b32 %r1, "x";',
        "mov.b32 %r1 = 3;",
        "@%p1 label:",
        "ret",
        ".callprototype _;",
        "table: .calltargets f;",
        ".tex .u64 t;",
        "{" * 40,
    ],
)
def test_what_no_compiler_writes_is_refused(text: str) -> None:
    with pytest.raises(AssemblyRefused):
        statements(text)


def test_a_variable_with_values() -> None:
    item = parse_variable(TokenCursor(".global .align 4 .b8 table[3] = {1, -2, 0x7};"), "")
    assert (item.type, item.extents, item.values) == ("b8", ("3",), ("1", "-2", "0x7"))


@pytest.mark.parametrize(
    "text",
    [
        ".global .attribute(.managed) .b32 x;",
        ".global .b64 x = {generic(y)};",
        ".global .b64 x = y;",
        ".global x;",
        ".global .align .b8 x;",
        ".global .b8 x[1 2];",
    ],
)
def test_variables_that_are_not_plain_are_refused(text: str) -> None:
    with pytest.raises(AssemblyRefused):
        parse_variable(TokenCursor(text), "")
