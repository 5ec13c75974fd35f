import pytest

from tests.workers.assembler.kernels import compiled
from workers.assembler.machine import Parameter
from workers.assembler.ptx.cursor import Cursor
from workers.assembler.ptx.parameters import read_parameter
from workers.assembler.ptx.parser import parse
from workers.assembler.ptx.statements import parse_variable
from workers.assembler.refusal import Refused


def parameter(text: str) -> Parameter:
    return read_parameter(parse_variable(Cursor(text), "", terminated=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".param .u64 .ptr .global .align 16 p", Parameter(8, "pointer")),
        (".param .u64 p", Parameter(8, "bits")),
        (".param .f32 p", Parameter(4, "float")),
        (".param .u8 p", Parameter(1, "bits")),
        (".param .align 2 .b8 p[2]", Parameter(2, "bits")),
    ],
)
def test_a_declaration_gives_size_and_kind(text: str, expected: Parameter) -> None:
    assert parameter(text) == expected


@pytest.mark.parametrize(
    "text",
    [".param .pred p", ".param .texref p", ".reg .u64 p", ".param .b8 p[2][2]", ".param .b8 p = 3", ".param .v2 p"],
)
def test_what_no_launch_passes_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parameter(text)


def test_every_type_that_triton_passes_is_read() -> None:
    entry = next(item for item in parse(compiled("scalars").assembly).functions if item.entry)
    sizes = [read_parameter(item).bytes for item in entry.parameters]
    assert sizes == [8, 2, 2, 4, 8, 1, 1, 2, 8, 8, 8]
