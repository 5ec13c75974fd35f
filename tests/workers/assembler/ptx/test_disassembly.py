"""Machine code as text with the candidate's lines, by the real tools."""

import pytest

from tests.workers.devices.kernels import PLAIN, job_of_lines
from workers.assembler import assemble_kernel
from workers.assembler.ptx.canonical import CanonicalText
from workers.assembler.ptx.disassembly import disassemble, with_lines
from workers.errors import ToolMissing
from workers.protocol import Bundle
from workers.targets import TARGETS

TARGET = TARGETS["sm_90"]


@pytest.fixture(scope="module")
def traced() -> tuple[Bundle, Bundle]:
    return job_of_lines(PLAIN)


def test_lines_come_from_a_kernel_of_the_same_machine_code(traced: tuple[Bundle, Bundle]) -> None:
    plain, lined = traced
    (kernel,), (with_them,) = plain.kernels.values(), lined.kernels.values()
    assert kernel.digest != with_them.digest and [*plain.cubins.values()] == [*lined.cubins.values()]
    code = assemble_kernel(kernel).code
    without, found = disassemble(code, TARGET), disassemble(code, TARGET, with_them)
    assert [each.text for each in found] == [each.text for each in without]
    assert {each.line for each in without} == {None}
    source = PLAIN.splitlines()
    loads = [each for each in found if each.class_name == "load_global"]
    exponentials = [each for each in found if each.opcode == "MUFU" and ".EX2" in each.text]
    assert loads and all("tl.load" in source[(each.line or 0) - 1] for each in loads)
    assert exponentials and all("tl.exp" in source[(each.line or 0) - 1] for each in exponentials)


def test_a_kernel_of_other_instructions_gives_no_lines(traced: tuple[Bundle, Bundle]) -> None:
    (kernel,) = traced[0].kernels.values()
    other, lined = job_of_lines(PLAIN.replace("tl.exp(", "tl.exp2("))
    assert other.kernels.keys() != traced[0].kernels.keys()
    found = disassemble(assemble_kernel(kernel).code, TARGET, next(iter(lined.kernels.values())))
    assert found and all(each.line is None for each in found)


def test_directives_stand_where_the_line_changes_within_a_function() -> None:
    canonical = CanonicalText(
        ".version 8.7\n.entry kernel ()\n{\nmov;\nadd;\nmul;\n}\n", (None, 3, None, 4, 4, 5, None)
    )
    assert with_lines(canonical).splitlines() == [
        *(".version 8.7", ".entry kernel ()", "{", ".loc 1 4 0", "mov;", "add;", ".loc 1 5 0", "mul;", "}"),
        '.file 1 "candidate"',
    ]


def test_a_machine_without_the_tool_says_so() -> None:
    with pytest.raises(ToolMissing, match="no nvdisasm"):
        disassemble(b"code", TARGET, tool="/nowhere/nvdisasm")


def test_what_is_no_machine_code_is_said() -> None:
    with pytest.raises(ToolMissing, match="does not read the machine code"):
        disassemble(b"not an ELF file", TARGET)
