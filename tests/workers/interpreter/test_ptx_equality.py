"""Texts that differ only by chance are equal, and no others."""

import pytest

from workers.interpreter.ptx_equality import are_alike

TEXT = """
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0
)
{
	.reg .b32 	%r<9>;
	ld.param.b64 	%rd1, [kernel_param_0];
	mov.u32 	%r1, %tid.x;
	shl.b32 	%r2, %r1, 1;
	and.b32 	%r3, %r2, 510;
	shl.b32 	%r4, %r1, 3;
	sub.s32 	%r5, %r3, %r4;
	// begin inline asm
	st.global.b32 [ %rd1 + 0 ], { %r5 };
	st.global.b32 [ %rd1 + 4 ], { %r3 };
	@%p1 bra 	$L__BB0_2;
	add.s32 	%r6, %r5, 1;
$L__BB0_2:
	ret;
}
"""
OTHER = {
    "a constant": ("%r1, 3;", "%r1, 4;"),
    "an instruction": ("sub.s32", "add.s32"),
    "operands' order": ("%r3, %r4;", "%r4, %r3;"),
    "stores' order": ("+ 0 ], { %r5 }", "+ 0 ], { %r3 }"),
    "where a value comes from": ("%r5, %r3, %r4", "%r5, %r2, %r4"),
    "a value of the same kind": ("{ %r3 }", "{ %r2 }"),
    "a block": ("	add.s32 	%r6, %r5, 1;\n$L__BB0_2:\n", "$L__BB0_2:\n	add.s32 	%r6, %r5, 1;\n"),
    "a condition": ("@%p1 bra", "@!%p1 bra"),
    "a line more": ("	ret;", "	bar.sync 0;\n	ret;"),
}  # fmt: skip


def test_names_and_the_order_of_pure_instructions_say_nothing():
    swapped = TEXT.replace("	shl.b32 	%r4, %r1, 3;\n", "").replace(
        "	shl.b32 	%r2", "	shl.b32 	%r4, %r1, 3;\n	shl.b32 	%r2"
    )
    assert swapped != TEXT and are_alike(TEXT, swapped)
    assert are_alike(TEXT, swapped.replace("%r4", "%r9").replace("%r3", "%r4").replace("%r9", "%r3"))
    assert are_alike(TEXT, TEXT.replace("// begin inline asm", "// end"))


@pytest.mark.parametrize("what", OTHER)
def test_everything_else_does(what: str):
    old, new = OTHER[what]
    assert TEXT.count(old) == 1 and not are_alike(TEXT, TEXT.replace(old, new))
    assert not are_alike(TEXT.replace(old, new), TEXT)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("	sub.s32 	%r5, %r3, %r4;\n", "	shl.b32 	%r2, %r1, 1;\n"),
        ("	shl.b32 	%r4, %r1, 3;\n", "	ld.param.b64 	%rd1, [kernel_param_0];\n"),
        ("	add.s32 	%r6, %r5, 1;\n", "	mov.b32 	%r5, %r2;\n"),
    ],
)
def test_no_instruction_reads_what_is_not_written_yet_or_again(line: str, after: str):
    text = TEXT.replace("$L__BB0_2:\n", "	mov.b32 	%r5, %r2;\n")
    moved = text.replace(line, "").replace(after, after + line)
    assert moved != text and not are_alike(text, moved)
    assert not are_alike(moved, text)
