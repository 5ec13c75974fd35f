import pytest

from tests.workers.assembler.modules import module
from workers.assembler.ptx.parser import parse
from workers.assembler.ptx.scope import BlockNames, ModuleNames, NameScope, scopes, without_component
from workers.assembler.refusal import AssemblyRefused


def scope(body: str, top: str = "") -> NameScope:
    parsed = parse(module(body, top))
    return NameScope(parsed.functions[0], ModuleNames.of(parsed))


def names_at_the_end(body: str, top: str = "") -> BlockNames:
    """The names at the entry's last instruction, its `ret`."""
    return list(scope(body, top).steps())[-1][1]


@pytest.mark.parametrize("name", ["%r0", "%r8", "%rd1", "kernel_param_0", "u", "table", "$L", "$I", "%r3.x", "x.y"])
def test_declared_names_may_be_used(name: str) -> None:
    body = ".reg .v2 .b32 x; .reg .b32 u; { .reg .b32 t; $I: } $L:"
    assert names_at_the_end(body, top=".const .b8 table[1] = {1};").declares(name)


@pytest.mark.parametrize("name", ["%r9", "%r01", "%rq1", "%clock", "%tid.x", "u", "table.x", "%r", "%r99999999999"])
def test_other_names_may_not(name: str) -> None:
    assert not names_at_the_end(".reg .b32 t;", top=".const .b8 table[1] = {1};").declares(name)


@pytest.mark.parametrize("name", ["t", "q1"])
def test_what_a_block_declares_ends_with_it(name: str) -> None:
    steps = list(scope("{ .reg .b32 t; .reg .b32 q<2>; { mov.b32 t, q1; } } mov.b32 %r1, 0;").steps())
    assert [names.declares(name) for item, names in steps if item.head == "mov"] == [True, False]


def test_of_two_variables_of_one_name_the_nearest_is_meant() -> None:
    steps = list(scope(".param .b32 v; { .param .b64 v; trap; } trap;").steps())
    found = [names.find("v") for item, names in steps if item.head == "trap"]
    assert [item.type for item in found if item] == ["b64", "b32"]


def test_the_larger_of_two_counts_holds() -> None:
    names = names_at_the_end(".reg .b32 q<9>; .reg .b32 q<2>;")
    assert names.declares("q8")
    assert not names.declares("q9")


@pytest.mark.parametrize(
    ("name", "expected"), [("v.x", "v"), ("v.a", "v"), ("v", "v"), ("v.w.x", "v.w"), ("1.0", "1.0")]
)
def test_a_component_is_one_of_a_register(name: str, expected: str) -> None:
    assert without_component(name) == expected


def test_every_function_has_its_scope() -> None:
    found = list(scopes(parse(module(top=".func f () { L: ret; }"))))
    assert [item.function.name for item in found] == ["f", "kernel"]
    assert found[0].labels == {"L"}
    assert found[1].functions == {"f", "kernel"}


@pytest.mark.parametrize(
    "body",
    [
        ".reg .b32 %clock;",
        ".reg .b64 %clock<65>;",
        ".reg .b64 %clock6<5>;",
        ".reg .b32 table;",
        ".reg .b8 tabl<2>; .reg .b8 kernel;",
        "const_0: ret;",
        ".local .b8 function_1[4];",
        ".reg .b64 const_<1>;",
        "{ .reg .b64 shared_12<3>; }",
        ".reg .b64 kernel_param_1;",
        "kernel_param_1: ret;",
    ],
)
def test_a_local_name_may_not_hide_another(body: str) -> None:
    with pytest.raises(AssemblyRefused, match="taken"):
        scope(body, top=".const .b8 table[1] = {1};")


@pytest.mark.parametrize("prefix", ["x", "kernel_param_"])
def test_a_counted_register_may_be_no_module_variable_and_no_parameter(prefix: str) -> None:
    with pytest.raises(AssemblyRefused, match="also a register of"):
        scope(f".reg .b32 {prefix}<5>;", top=".const .b8 x3[1] = {1};")
