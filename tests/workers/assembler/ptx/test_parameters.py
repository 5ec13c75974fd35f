import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import module
from workers.assembler.machine import EntryParameter
from workers.assembler.ptx.parameters import bytes_of, check_parameters, read_parameter
from workers.assembler.ptx.parser import parse, parse_variable
from workers.assembler.ptx.scope import scopes
from workers.assembler.ptx.tokens import TokenCursor
from workers.assembler.refusal import AssemblyRefused


def parameter(text: str) -> EntryParameter:
    return read_parameter(parse_variable(TokenCursor(text), "", terminated=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".param .u64 .ptr .global .align 16 p", EntryParameter(8, "pointer")),
        (".param .u64 p", EntryParameter(8, "bits")),
        (".param .f32 p", EntryParameter(4, "float")),
        (".param .u8 p", EntryParameter(1, "bits")),
        (".param .align 2 .b8 p[2]", EntryParameter(2, "bits")),
    ],
)
def test_a_declaration_gives_size_and_kind(text: str, expected: EntryParameter) -> None:
    assert parameter(text) == expected


@pytest.mark.parametrize(
    "text",
    [".param .pred p", ".param .texref p", ".reg .u64 p", ".param .b8 p[2][2]", ".param .b8 p = 3", ".param .v2 p"],
)
def test_what_no_launch_passes_is_refused(text: str) -> None:
    with pytest.raises(AssemblyRefused):
        parameter(text)


def test_every_type_that_triton_passes_is_read() -> None:
    entry = next(item for item in parse(compiled("scalars").assembly).functions if item.entry)
    sizes = [read_parameter(item).bytes for item in entry.parameters]
    assert sizes == [8, 2, 2, 4, 8, 1, 1, 2, 8, 8, 8]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(".param .u64 p", 8), (".param .align 4 .b8 p[16]", 16), (".param .b32 p[2][3]", 24), (".param .b8 p[]", 0)],
)
def test_a_declaration_gives_bytes(text: str, expected: int) -> None:
    assert bytes_of(parse_variable(TokenCursor(text), "", terminated=False)) == expected


def check(body: str) -> None:
    for scope in scopes(parse(module(body))):
        check_parameters(scope)


@pytest.mark.parametrize("offset", ["", "+0", "+7"])
def test_a_parameter_may_be_read_in_parts(offset: str) -> None:
    check(f"ld.param.b8 %r1, [kernel_param_0{offset}];")
    with pytest.raises(AssemblyRefused, match="beyond"):
        check(f"ld.param.b64 %rd2, [kernel_param_1{offset}];")


@pytest.mark.parametrize("offset", ["+8", "+-1", "-1", "+00", "+0x1", "+1U", "+1+1", "+9999999", "+%r1"])
def test_nothing_around_a_parameter_is_read(offset: str) -> None:
    with pytest.raises(AssemblyRefused, match=r"beyond|must name"):
        check(f"ld.param.b8 %r1, [kernel_param_0{offset}];")


@pytest.mark.parametrize("name", ["calling", "doubled", "scalars", "wave"])
def test_honest_uses_of_parameters_pass(name: str) -> None:
    found = list(scopes(parse(compiled(name).assembly)))
    for scope in found:
        check_parameters(scope)
    assert any("param" in item.modifiers for scope in found for item, _ in scope.steps())
