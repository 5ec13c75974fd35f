import pytest

from service.emitters.rules.boxes import boxes, is_plain
from tests.service.emitters.samples import kernel_of, seed


def found(source):
    kernel = kernel_of(source)
    return [(box, is_plain(box, kernel)) for box in boxes(kernel)]


def test_operands_of_a_matrix_product_are_boxes():
    (a, plain), (b, _) = found(seed("matmul"))
    assert (a.base, a.stride, a.shape, a.block) == ("a_ptr", "K", ("M", "K"), ("BLOCK_M", "BLOCK_K"))
    assert a.offsets == ("tl.program_id(0) * BLOCK_M", "start")
    assert (b.base, b.offsets[1], plain) == ("b_ptr", "tl.program_id(1) * BLOCK_N", True)


def test_a_matrix_within_another_is_a_box_that_is_not_plain():
    assert [(box.base, box.offsets[1], plain) for box, plain in found(seed("attention"))] == [
        ("q_ptr + head", "0", False),
        ("v_ptr + head", "0", False),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("other=0.0", "other=1.0"),
        (" & (inner[None, :] < K)", ""),
        ("rows = tl.program_id(0)", "rows = tl.program_id(0).to(tl.int64)"),
        ("rows[:, None] * K + inner[None, :], mask=a_mask", "inner[None, :] + rows[:, None] * K, mask=a_mask"),
        ("total = tl.dot", "rows = rows + 0\n        total = tl.dot"),
    ],
)
def test_what_is_not_surely_a_box_is_none(old, new):
    assert "a_ptr" not in [box.base for box, _ in found(seed("matmul").replace(old, new))]


def test_rows_are_no_boxes():
    assert found(seed("rmsnorm")) == []
