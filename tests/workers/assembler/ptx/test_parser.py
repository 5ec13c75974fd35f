import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import HEAD, module
from workers.assembler.ptx.parser import parse
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
