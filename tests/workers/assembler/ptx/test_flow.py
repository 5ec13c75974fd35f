import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import kernel_of, module
from workers.assembler.ptx.flow import bound_jumps, check_calls
from workers.assembler.ptx.lint import lint
from workers.assembler.ptx.parser import parse
from workers.assembler.refusal import AssemblyRefused

LISTS = "few: .branchtargets $A, $B; many: .branchtargets $A, $B, $A, $B;"


def printed(body: str) -> list[str]:
    text = lint(kernel_of(module(f"{LISTS} {body} $A: $B:")), "sm_90a").canonical.text
    assert lint(kernel_of(text), "sm_90a").canonical.text == text
    return text.splitlines()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("brx.idx %r1, few;", ["min.u32 %r1, %r1, 1;", "brx.idx %r1, few;"]),
        ("@!%p1 brx.idx.uni %r2, many;", ["@!%p1 min.u32 %r2, %r2, 3;", "@!%p1 brx.idx.uni %r2, many;"]),
        ("{ { brx.idx %r1, many; } }", ["min.u32 %r1, %r1, 3;", "brx.idx %r1, many;"]),
        ("{ many: .branchtargets $A; } brx.idx %r1, many;", ["min.u32 %r1, %r1, 0;", "brx.idx %r1, many;"]),
        ("min.u32 %r1, %r1, 2; brx.idx %r1, few;", ["min.u32 %r1, %r1, 1;", "brx.idx %r1, few;"]),
        ("min.u32 %r1, %r1, 1; $C: brx.idx %r1, few;", ["min.u32 %r1, %r1, 1;", "brx.idx %r1, few;"]),
    ],
)
def test_jumps_stay_within_their_lists(body: str, expected: list[str]) -> None:
    lines = printed(body)
    at = lines.index(expected[1])
    assert lines[at - 1 : at + 1] == expected


@pytest.mark.parametrize("body", ["brx.idx %r1, $A;", "brx.idx -%r1, few;", "brx.idx %r1;", "brx.idx %r1, few, many;"])
def test_a_jump_names_a_register_and_a_list(body: str) -> None:
    with pytest.raises(AssemblyRefused, match="list of targets"):
        printed(body)


def test_a_function_without_jumps_through_lists_is_itself() -> None:
    entry = parse(module("bra $A; $A:")).functions[0]
    assert bound_jumps(entry) is entry


@pytest.mark.parametrize(
    ("top", "body"),
    [
        (".func f () { call f; ret; }", ""),
        (".func g (); .func f () { call g; ret; } .func g () { call f; ret; }", "call f;"),
        (".func f (.param .b64 a) { { call.uni f, (a); } ret; }", "call f, (%rd1);"),
        ("", "call kernel;"),
    ],
)
def test_functions_that_come_back_to_themselves_are_refused(top: str, body: str) -> None:
    with pytest.raises(AssemblyRefused, match="calls itself"):
        check_calls(parse(module(body, top)))


def test_functions_may_call_those_that_end() -> None:
    top = ".func h () { ret; } .func g () { call h; call h; ret; } .func f () { call g; call h; ret; }"
    honest = parse(module("call f; call g;", top)), parse(compiled("calling").assembly)
    assert [check_calls(item) for item in honest] == [None, None]
