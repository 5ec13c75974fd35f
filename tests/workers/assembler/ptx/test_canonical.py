import re

import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import module
from workers.assembler.ptx.canonical import canonical_names, print_module
from workers.assembler.ptx.parser import parse

BODY = "mov.u32 %r1, %tid.x;\n@!%p1 bra $L;\n$L: st.global.v2.b32 [%rd1 + 4], {%r1, -3};"


@pytest.mark.parametrize("name", ["rmsnorm", "matmul", "doubled", "calling", "scalars"])
def test_canonical_text_is_its_own_canonical_text(name: str) -> None:
    once = print_module(parse(compiled(name).assembly)).text
    assert print_module(parse(once)).text == once


def test_comments_layout_and_debug_lines_do_not_count() -> None:
    plain = print_module(parse(module(BODY))).text
    noisy = module(BODY.replace(";", " ; // noise\n").replace("%r1,", "/* */ %r1 ,\n"), after='.file 1 "a.py"\n')
    noisy = noisy.replace("mov.u32", ".loc 1 2 3\n\tmov.u32")
    assert print_module(parse(noisy)).text == plain


def test_names_of_functions_and_memory_do_not_count() -> None:
    text = compiled("calling").assembly
    name = re.search(r"\.func (\S+)", text)
    assert name is not None
    renamed = text.replace(name[1], "another_$_name")
    assert renamed != text
    assert print_module(parse(renamed)).text == print_module(parse(text)).text


def test_everything_at_module_scope_is_renamed() -> None:
    top = ".extern .shared .align 16 .b8 memory[]; .const .b8 table[1] = {1}; .func f ();"
    names = canonical_names(parse(module(top=top, after=".func f () { ret; }")))
    assert names == {"memory": "shared_0", "table": "const_1", "f": "function_2", "kernel": "kernel"}


def test_lines_of_the_text_lead_back_to_the_candidate() -> None:
    printed = print_module(parse(module(".loc 1 7 0\nmov.u32 %r1, %tid.x;\n.loc 1 9 0\nst.global.b32 [%rd1], %r1;")))
    at = {text: line for text, line in zip(printed.text.splitlines(), printed.lines, strict=True)}
    assert at["mov.u32 %r1, %tid.x;"] == 7
    assert at["st.global.b32 [ %rd1 ], %r1;"] == 9
    assert at[".version 8.7"] is None


def test_what_was_said_is_printed() -> None:
    printed = print_module(parse(module(BODY, limits=".reqntid 128 .maxnreg 64"))).text
    for line in (
        "@!%p1 bra $L;",
        "$L:",
        "st.global.v2.b32 [ %rd1 + 4 ], { %r1 , - 3 };",
        ".reg .b32 %r<9>;",
    ):
        assert line in printed.splitlines()
    assert ".param .u64 .ptr .global .align 1 parameter_0" in printed
    assert ".maxnreg 64 .reqntid 128" in printed
