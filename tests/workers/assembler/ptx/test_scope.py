import pytest

from tests.workers.assembler.modules import module
from workers.assembler.ptx.parser import parse
from workers.assembler.ptx.scope import Scope
from workers.assembler.refusal import Refused


def scope(body: str, top: str = "") -> Scope:
    parsed = parse(module(body, top))
    return Scope(parsed.functions[0], parsed)


@pytest.mark.parametrize("name", ["%r0", "%r8", "%rd1", "kernel_param_0", "t", "table", "$L", "%r3.x", "x.y"])
def test_declared_names_may_be_used(name: str) -> None:
    used = scope(".reg .v2 .b32 x; { .reg .b32 t; } $L:", top=".const .b8 table[1] = {1};")
    assert used.declares(name)


@pytest.mark.parametrize("name", ["%r9", "%r01", "%rq1", "%clock", "%tid.x", "u", "table.x", "%r", "%r99999999999"])
def test_other_names_may_not(name: str) -> None:
    assert not scope(".reg .b32 t;", top=".const .b8 table[1] = {1};").declares(name)


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
    ],
)
def test_a_local_name_may_not_hide_another(body: str) -> None:
    with pytest.raises(Refused, match="taken"):
        scope(body, top=".const .b8 table[1] = {1};")


def test_a_counted_register_may_not_be_a_module_variable() -> None:
    with pytest.raises(Refused, match="a register of"):
        scope(".reg .b32 x<5>;", top=".const .b8 x3[1] = {1};")
