import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import HEAD, module
from workers.assembler.ptx.parser import parse, parse_block, parse_variable
from workers.assembler.ptx.syntax import PtxInstruction, PtxLabel, PtxPragma, PtxVariable, Statement
from workers.assembler.ptx.tokens import TokenCursor
from workers.assembler.refusal import AssemblyRefused


def test_a_module_says_what_it_is_for() -> None:
    parsed = parse(module())
    assert (parsed.version, parsed.target, parsed.address_bits) == ("8.7", "sm_90a", 64)
    assert [function.name for function in parsed.functions] == ["kernel"]
    assert parsed.functions[0].entry


def test_parameters_and_limits_of_an_entry_are_read() -> None:
    entry = parse(module(limits=".reqntid 64, 2, 1\n.maxnreg 32 .explicitcluster")).functions[0]
    assert [item.type for item in entry.parameters] == ["u64", "u32", "u64", "u64"]
    assert entry.parameters[0].attributes == ("ptr", "global", "align 1")
    assert entry.limits == {"reqntid": (64, 2, 1), "maxnreg": (32,), "explicitcluster": ()}


def test_functions_may_be_declared_before_they_are_defined() -> None:
    parsed = parse(module(top=".func (.param .b32 r) f (.param .b64 p) ;", after=".func f (.param .b64 p) { ret; }"))
    assert [(item.name, item.body is None) for item in parsed.functions] == [
        ("f", True),
        ("kernel", False),
        ("f", False),
    ]


def test_debug_sections_and_file_lines_are_left_out() -> None:
    text = module(after='.file 1 "candidate.py", 12, 34\n.section .debug_info { .b8 1\n.b64 $L }\n')
    assert len(parse(text).functions) == 1


@pytest.mark.parametrize(
    "after",
    [
        ".section .text { ret; }",
        ".alias f, g;",
        "ret;",
        ".weak .alias kernel;",
        ".entry second (",
        ".func f() .reqntid 128 .reqntid 64 { ret; }",
    ],
)
def test_what_is_neither_variable_nor_function_is_refused(after: str) -> None:
    with pytest.raises(AssemblyRefused):
        parse(module(after=after))


@pytest.mark.parametrize("head", ["", ".target sm_90a\n", HEAD.replace("64", "x"), ".version 8.7\n.version 8.7\n"])
def test_a_module_without_a_proper_head_is_refused(head: str) -> None:
    with pytest.raises(AssemblyRefused):
        parse(module(head=head))


@pytest.mark.parametrize("name", ["rmsnorm", "matmul", "doubled", "wave", "calling", "printing"])
def test_everything_that_triton_writes_parses(name: str) -> None:
    assert any(function.entry for function in parse(compiled(name).assembly).functions)


def test_instructions_know_the_candidates_line() -> None:
    entry = next(item for item in parse(compiled("root").assembly).functions if item.entry)
    lines = {item.line for item in entry.instructions if item.head == "ld" and "global" in item.modifiers}
    assert len(lines) == 1
    assert None not in lines


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
