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


MAP = ".param .align 64 .b8 map[128]"
TAKE = "mov.b64 %rd1, map; cvta.param.u64 %rd2, %rd1;"
COPY = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r2, %r3}], [%r4];"


def check_map(body: str, parameter: str = MAP) -> None:
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry kernel(" + parameter + ")\n"
        "{ .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<2>; " + body + " ret; }\n"
    )
    for scope in scopes(parse(text)):
        check_parameters(scope)


@pytest.mark.parametrize(
    "body",
    [
        TAKE + COPY,
        "mov.b32 %r8, map; cvt.u64.u32 %rd1, %r8; cvta.param.u64 %rd2, %rd1;" + COPY,
        TAKE + "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r2, %r3}], [%r1];",
    ],
)
def test_copies_may_use_a_tensor_map(body: str) -> None:
    check_map(body)
    with pytest.raises(AssemblyRefused):
        check_map(body, MAP.replace("128", "136"))
    with pytest.raises(AssemblyRefused):
        check_map(body, MAP.replace("align 64", "align 8"))


@pytest.mark.parametrize(
    "body",
    [
        TAKE + "ld.u64 %rd3, [%rd2];",
        TAKE + "add.s64 %rd3, %rd2, 64;",
        TAKE + "mov.b64 %rd3, %rd2;" + COPY,
        TAKE + "st.shared.b64 [%r1], %rd2;",
        TAKE + COPY.replace("[%rd2, {", "[%rd2+-64, {"),
        TAKE + COPY.replace("[%rd2, {", "[%rd1, {"),
        TAKE + "mov.b64 %rd2, %rd7;" + COPY,
        TAKE + "mov.b64 %rd1, %rd7;" + COPY,
        TAKE + COPY.replace("%r2", "%rd2"),
        "mov.b64 %rd1, map; @%p1 cvta.param.u64 %rd2, %rd1;" + COPY,
        "mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;" + COPY.replace("%rd2", "%rd1"),
        "cvta.param.u64 %rd2, %rd7;" + COPY,
        "mov.b64 %rd1, map; { .reg .b64 %inner; cvta.param.u64 %rd2, %rd7; }" + COPY,
        "{ .reg .b64 t; mov.b64 t, map; } { .reg .b64 t; cvta.param.u64 %rd2, t; }" + COPY,
    ],
)
def test_nothing_else_may(body: str) -> None:
    with pytest.raises(AssemblyRefused):
        check_map(body)
