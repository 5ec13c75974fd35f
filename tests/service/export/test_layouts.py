"""Layouts of Gluon are written from the text of a plan, and nothing else is."""

import pytest
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

from service.export.extraction import NotExtractable
from service.export.layouts import MAX_CHARS, layout

gl = gluon.language
BLOCKED = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
PRODUCT = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
MADE = (
    gl.AutoLayout(),
    gl.CoalescedLayout(),
    BLOCKED,
    gl.SliceLayout(1, gl.SliceLayout(0, gl.BlockedLayout([1, 1, 1], [1, 1, 32], [1, 4, 1], [2, 1, 0]))),
    PRODUCT,
    gl.DotOperandLayout(0, PRODUCT, 2),
    gl.NVMMASharedLayout.get_default_for([64, 64], gl.bfloat16),
    gl.SwizzledSharedLayout(8, 2, 4, [1, 0]),
    gl.DistributedLinearLayout([[1]], [[2], [4], [8], [16], [32]], [[64], [128]], [], [256]),
    gl.SharedLinearLayout([[1], [2], [4]]),
    TensorMemoryLayout((128, 64), col_stride=1),
)


@pytest.mark.parametrize("made", MADE, ids=lambda made: type(made).__name__)
def test_a_layout_comes_back_as_it_was(made: object) -> None:
    written = layout(repr(made))
    assert eval(written, {"gluon": gluon, "__builtins__": {}}) == made


HOSTILE = {
    "a call": "print('x')",
    "a layout with a call": "SliceLayout(dim=0, parent=print('x'))",
    "an attribute": "gl.SliceLayout(dim=0, parent=None)",
    "another class": "MBarrierLayout(cga_layout=[])",
    "a text": "SliceLayout(dim='0', parent=None)",
    "a number alone": "3",
    "unnamed arguments": "SliceLayout(0, AutoLayout())",
    "hidden arguments": "SliceLayout(**{'dim': 0})",
    "an odd name": "SliceLayout(__class__=0)",
    "a comprehension": "BlockedLayout(order=[i for i in [0]])",
    "two statements": "AutoLayout()\nprint('x')",
    "no syntax": "AutoLayout(",
    "a null byte": "AutoLayout()\0",
    "depth": "SliceLayout(dim=0, parent=" * 400 + "AutoLayout()" + ")" * 400,
    "length": f"AutoLayout({' ' * MAX_CHARS})",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(NotExtractable, match="which is no layout of Gluon"):
        layout(text)
