import pytest

from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import applies, rewritten, seed


def test_it_undoes_chunks():
    for operator in ("rmsnorm", "softmax", "layernorm", "rope"):
        code = rewritten("whole_row", rewritten("chunk_row", seed(operator)))
        assert "for " not in code
        assert code.count("tl.load(x_ptr") <= 1
        assert "BLOCK=triton.next_power_of_2(n_cols)" in code


def test_scalars_that_were_carried_become_folds():
    code = rewritten("whole_row", LOOPED["softmax"])
    assert "top_1 = tl.max(part, axis=0)" in code
    assert "weight_1 = tl.sum(tl.exp(part - top_1), axis=0)" in code
    assert "triton.next_power_of_2(x.shape[1])" in code


@pytest.mark.parametrize("operator", ["rmsnorm", "gelu", "matmul", "attention", "cross_entropy"])
def test_kernels_that_do_not_sweep_a_row_by_folds(operator):
    assert not applies("whole_row", seed(operator))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("top = -float('inf')", "top = 0.0"),
        ("weight = 0.0", "weight = 1.0"),
        ("weight += ", "weight = weight * 0.5 + "),
        ("range(0, length, TILE)", "range(0, stride, TILE)"),
        ("range(0, length, TILE)", "range(0, length, 1 * TILE)"),
        ("(tl.exp(part - top) / weight)", "(tl.exp(part - top) / weight * TILE)"),
        ("weight = 0.0", "weight = tl.zeros([TILE], tl.float32)"),
        ("torch.empty_like(x)", "x"),
    ],
)
def test_sweeps_that_one_turn_cannot_stand_for(old, new):
    source = LOOPED["softmax"].replace('"inf"', "'inf'")
    assert old in source
    count = 1 if old.startswith("range") else -1
    assert not applies("whole_row", source.replace(old, new, count))


def test_what_a_sweep_leaves_behind_must_not_be_used():
    source = LOOPED["rmsnorm"].replace("    scale = ", "    last = tl.sum(x, axis=0)\n    scale = last + ")
    assert not applies("whole_row", source)
