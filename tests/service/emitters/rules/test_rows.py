import pytest

from service.emitters.rules.rows import rows, work_of
from service.emitters.rules.straight import target
from service.operators.sources import parse
from tests.service.emitters.samples import DOUBLED, candidate, kernel_of, rewritten, seed

NORM = candidate(DOUBLED.replace("x + x", "x * tl.sum(x, axis=0)"))


def found(source):
    return list(rows(parse(source)))


def test_a_row():
    (row,) = found(NORM)
    assert (row.block, row.extent) == ("BLOCK", "n_cols")
    assert [target(line) for line in row.lines if row.folds(line)] == ["total"]
    assert [target(line) for line in row.lines if row.is_wide(line)] == ["cols", "mask", "x", ""]


@pytest.mark.parametrize("operator", ["rmsnorm", "softmax", "layernorm", "rope"])
@pytest.mark.parametrize("rules", [[], ["rows_tile"], ["persistent"], ["even_mask"]])
def test_rows_of_the_catalogue_also_after_other_rules(operator, rules):
    source = seed(operator)
    for rule in rules:
        source = rewritten(rule, source)
    (row,) = found(source)
    assert (row.block, row.extent) == ("BLOCK", "n_cols")


@pytest.mark.parametrize("operator", ["swiglu", "gelu", "matmul", "attention", "cross_entropy"])
def test_what_is_no_row(operator):
    assert not found(seed(operator))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mask=mask, other=0.0", "other=0.0"),
        ("mask = cols < n_cols", "mask = cols < n_cols + 1"),
        ("mask = cols < n_cols", "mask = cols > n_cols"),
        ("mask = cols < n_cols", "mask = (cols < n_cols) | (cols < y_ptr)"),
        ("mask = cols < n_cols", "mask = cols + 1 < n_cols"),
        (".to(tl.float32)", ""),
        ("tl.sum(x, axis=0)", "tl.sum(x * BLOCK, axis=0)"),
        ("tl.sum(x, axis=0)", "tl.cumsum(x, axis=0)"),
        ("tl.sum(x, axis=0)", "tl.argmax(x, axis=0)"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK)[None, :] + tl.arange(0, BLOCK)[:, None]"),
        ("    mask", "    if row > 2:\n        row = row\n    mask"),
        ("torch.empty_like(x)", "x"),
        ("x * tl.sum", "tl.flip(x) * tl.sum"),
    ],
)
def test_what_is_not_surely_a_row(old, new):
    assert old in NORM
    assert not found(NORM.replace(old, new))


@pytest.mark.parametrize(
    ("flag", "sure"),
    [("n_cols % block == 0", True), ("n_cols % 16 == 0", False), ("True", False), ("n_rows > 1", False)],
)
def test_masks_that_a_flag_may_lift(flag, sure):
    source = candidate(
        DOUBLED.replace("cols < n_cols", "(cols < n_cols) | EVEN"),
        signature="x_ptr, y_ptr, n_cols, EVEN: tl.constexpr, BLOCK: tl.constexpr",
        passed=f"x, y, n_cols, {flag}, BLOCK=block",
        host="block = triton.next_power_of_2(n_cols)",
    )
    assert bool(found(source)) is sure


def test_the_work_of_a_persistent_kernel_is_inside_its_loop():
    kernel = kernel_of(rewritten("persistent", NORM))
    assert len(kernel.function.body) == 1
    assert work_of(kernel) is kernel.function.body[0].body
