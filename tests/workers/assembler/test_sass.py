"""nvdisasm's text as instructions: lines, loops, classes, and no padding."""

import pytest

from workers.assembler import CLASSES
from workers.assembler.sass import _CLASS_OF, SassInstruction, loop_depths, parse_sass

TEXT = """
	.section	.text.other,"ax",@progbits
        /*0000*/                   FADD R1, R2, R3 ;
	.section	.text.kernel,"ax",@progbits
        .type           kernel,@function
kernel:
.text.kernel:
	//## File "candidate", line 17
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
	//## File "candidate", line 18
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_1:
        /*0020*/              @!P0 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24 ;
	//## File "candidate", line 0
        /*0030*/               @P0 BRA `(.L_x_1) ;
        /*0040*/              @UP1 BRA.U UP0, `(.L_x_0) ;
        /*0050*/               @P0 BRA `(.L_x_2) ;
        /*0060*/                   STG.E desc[UR4][R2.64], R5 ;
.L_x_2:
        /*0070*/                   EXIT ;
.L_x_3:
        /*0080*/                   BRA `(.L_x_3);
        /*0090*/                   NOP;
	.section	.nv.constant0,"a",@progbits
        /*0000*/                   FMUL R1, R2, R3 ;
"""


def test_the_entry_is_read_without_padding_and_other_sections() -> None:
    found = parse_sass(TEXT)
    assert [each.offset for each in found] == list(range(0, 0x80, 0x10))
    assert [each.opcode for each in found] == ["LDC", "LDG", "HGMMA", "BRA", "BRA", "BRA", "STG", "EXIT"]
    assert found[2].text == "@!P0 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24"


def test_lines_hold_until_the_next_one_and_zero_is_none() -> None:
    assert [each.line for each in parse_sass(TEXT)] == [17, 18, 18, None, None, None, None, None]


def test_loops_are_backward_jumps_to_distinct_places() -> None:
    found = parse_sass(TEXT)
    assert [each.target for each in found] == [None, None, None, 0x20, 0x10, 0x70, None, None]
    assert loop_depths(found) == [0, 1, 2, 2, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LDG.E R1, [R2]", "load_global"),
        ("@P0 LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", "load_global"),
        ("@UP0 UTMALDG.2D [UR12], [UR20]", "load_global"),
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", "matrix"),
        ("@!PT MUFU.EX2 R3, R4", "special"),
        ("FFMA.FTZ R1, R2, R3, R4", "float"),
        ("IMAD.WIDE.U32 R2, R7, 0x2, R2", "integer"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR13], R3", "barrier"),
        ("STL [R1], R2", "other"),
        ("UNHEARDOF R1", "other"),
    ],
)
def test_opcodes_have_the_classes_of_readings(text: str, name: str) -> None:
    assert SassInstruction(0, text).class_name == name
    assert {*_CLASS_OF.values()} <= {*CLASSES}


def test_text_without_the_entry_has_no_instructions() -> None:
    assert parse_sass("") == [] == parse_sass("nvdisasm fatal : Unknown kind")
