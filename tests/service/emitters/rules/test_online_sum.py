import pytest

from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import applies, rewritten, seed


def test_lanes_are_corrected_for_the_peak_of_all():
    code = rewritten("online_sum", rewritten("chunk_row", seed("softmax")))
    assert code.count("for start") == 2
    assert "total_lanes = total_lanes * tl.exp(peak_lanes - new_peak) + tl.exp(x - new_peak)" in code
    assert "total_lanes = total_lanes * tl.exp(peak_lanes - peak)" in code


def test_scalars_need_no_correction():
    code = rewritten("online_sum", LOOPED["cross_entropy"])
    assert "new_peak = tl.maximum(peak, tl.max(x, axis=0))" in code
    assert "total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(x - new_peak), axis=0)" in code
    assert "peak = -3.4028234663852886e+38" in code


def test_powers_of_two_keep_their_scale():
    code = rewritten("online_sum", rewritten("exp2", LOOPED["softmax"]))
    assert "weight * tl.exp2((top - new_peak) * 1.4426950408889634)" in code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.exp(part - top)", "tl.exp(part - top + 1.0)"),
        ("tl.exp(part - top)", "tl.exp(top - part)"),
        ("tl.exp(part - top)", "tl.exp(part) - top"),
        ("tl.exp(part - top)", "part * tl.exp(part - top)"),
        ("tl.exp(part - top)", "tl.exp2((part - top) * stride)"),
        ("weight = 0.0", "weight = 1.0"),
        ('top = -float("inf")', "top = 0.0"),
        ("    weight = 0.0", "    weight = 0.0\n    top = top * 2.0"),
        ("    weight = 0.0", "    weight = 0.0\n    tl.store(y_row, top)"),
        ("        weight += ", "        part = part * 2.0\n        weight += "),
        ("        weight += ", "        tl.store(y_row + at, part, mask=at < length)\n        weight += "),
        ("        top = tl.max", "        seen = top + 1.0\n        top = tl.max"),
        ("    for first in range(0, length, TILE)", "    for first in range(0, stride, TILE)"),
    ],
)
def test_sums_of_anything_else(old, new):
    assert old in LOOPED["softmax"]
    assert not applies("online_sum", LOOPED["softmax"].replace(old, new, 1))


def test_the_second_sweep_must_leave_nothing_else_behind():
    source = LOOPED["softmax"].replace("weight += ", "last = first\n        weight += ")
    assert applies("online_sum", source)
    assert not applies("online_sum", source.replace("/ weight)", "/ weight + last)"))
