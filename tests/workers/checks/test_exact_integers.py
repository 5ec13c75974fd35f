"""Integer results are exact; there is no tolerance in counting."""

from dataclasses import replace

import pytest
import torch

from tests.workers.checks.cases import REFERENCES, gather, operator
from workers.checks import CHECKS
from workers.protocol import Outcome

CHECK = CHECKS["exact_integers"]


def test_the_right_index_passes():
    assert CHECK.examine(gather(operator("argmax"), "normal", 0, lambda x: x.argmax(-1))).outcome is None


def test_one_off_is_wrong():
    finding = CHECK.examine(gather(operator("argmax"), "normal", 0, lambda x: x.argmax(-1) + 1))
    assert finding.outcome is Outcome.WRONG_RESULT and finding.reason


def test_floats_are_not_its_business():
    assert CHECK.examine(gather(operator("gelu"), "normal", 0, lambda x: x * 0)).outcome is None


@pytest.mark.parametrize(("true", "outcome"), [(1, None), (0xFF, Outcome.WRONG_RESULT), (0x3F, Outcome.WRONG_RESULT)])
def test_poison_is_no_answer_where_true_is_right(true, outcome):
    evidence = gather(operator("positive"), "normal", 0, lambda x: x > 0)
    left = torch.where(evidence.reference.expected[0], true, 0).to(torch.uint8).view(torch.bool)
    finding = CHECK.examine(replace(evidence, outputs=(left,)))
    assert finding.outcome is outcome and (outcome is None or f"is {true} at" in finding.reason)


def scaled(x, by=127.0):
    v = x.float()
    return v * (by / v.abs().amax(-1, keepdim=True))


def quotient(x):
    return x.float() / (x.float().abs().amax(-1, True) / 127)


def on_the_border(x):
    return (scaled(x).abs() > 126.99).to(torch.int8) * x.sign().to(torch.int8)


QUANTISED = {
    "the same formula in float32": (lambda x: quotient(x).to(torch.int8), None),
    "a factor in place of a quotient": (lambda x: scaled(x).to(torch.int8), None),
    "a rounding that is another": (lambda x: scaled(x).round().to(torch.int8), Outcome.WRONG_RESULT),
    "a factor that is too small": (lambda x: scaled(x, 126.9).to(torch.int8), Outcome.WRONG_RESULT),
    "two steps on the border": (lambda x: scaled(x).to(torch.int8) - 2 * on_the_border(x), Outcome.WRONG_RESULT),
    "the dtype of the inputs": (
        lambda x: (x / (x.abs().amax(-1, True) / 127)).to(torch.int8), Outcome.WRONG_RESULT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", QUANTISED)
@pytest.mark.parametrize("draw", ["normal", "structured", "heavy"])
def test_a_float_on_the_border_of_two_integers_is_either(what, draw):
    kernel, outcome = QUANTISED[what]
    found = {CHECK.examine(gather(operator("quantised"), draw, seed, kernel)).outcome for seed in range(3)}
    if draw == "structured":  # It has rows of equal elements, and of denormal ones, whose factor overflows.
        assert outcome in found or what.startswith("a factor in")
    else:
        assert found == {outcome}


STORED = (
    "def stored(x):\n"
    "    w = x.float() * 1.1\n"
    "    s = w.abs().amax(-1, keepdim=True) / 127\n"
    "    return (w.to(torch.float16).float() / s + 0.5).to(torch.int8)\n"
)


@pytest.mark.parametrize(
    ("dtype", "outcome"),
    [(torch.float16, None), (torch.float32, None), (torch.bfloat16, Outcome.WRONG_RESULT)],
)
def test_what_is_rounded_before_it_is_quantised_may_be_so(monkeypatch, dtype, outcome):
    def kernel(x):
        wide = x.float() * 1.1
        return (wide.to(dtype).float() / (wide.abs().amax(-1, keepdim=True) / 127) + 0.5).to(torch.int8)

    monkeypatch.setitem(REFERENCES, "stored", (STORED, {"x": ("M", "N")}))
    made = operator("stored")
    made = made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "int8"}),)})
    assert {CHECK.examine(gather(made, "normal", seed, kernel)).outcome for seed in range(3)} == {outcome}


COARSE = (
    "def coarse(x):\n"
    "    s = (x.float().abs().amax(-1, keepdim=True) / 9999).to(torch.bfloat16)\n"
    "    return (x.float() / s.float()).to(torch.int16)\n"
)


@pytest.mark.parametrize(
    ("kernel", "outcome"),
    [
        (lambda x, s: x / s.to(torch.bfloat16), None),
        (lambda x, s: x / s, None),
        (lambda x, s: x / s.to(torch.bfloat16) + 2, Outcome.WRONG_RESULT),
        (lambda x, s: x / (s * 0.99).to(torch.bfloat16), Outcome.WRONG_RESULT),
    ],
)
def test_a_scale_that_the_reference_rounds_may_move_by_several(monkeypatch, kernel, outcome):
    monkeypatch.setitem(REFERENCES, "coarse", (COARSE, {"x": ("M", "N")}))
    made = operator("coarse")
    made = made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "int16"}),)})

    def quantised(x):
        return kernel(x.float(), x.float().abs().amax(-1, keepdim=True) / 9999).to(torch.int16)

    assert {CHECK.examine(gather(made, "normal", seed, quantised)).outcome for seed in range(3)} == {outcome}


OVERFLOWING = (
    "def overflowing(x):\n"
    "    w = x.float()\n"
    "    return (w * (127 / w.abs().amax(-1, keepdim=True))).to(torch.int8).unsqueeze(0)\n"
)
CASTS = {
    "PyTorch's": (lambda x: scaled(x).to(torch.int8), None),
    "another of what is undefined": (lambda x: scaled(x).nan_to_num(5.0, 5.0, 5.0).to(torch.int8), None),
    "rubbish where rows have a largest element": (
        lambda x: torch.where(x.abs().amax(-1, True) < 1e-3, 0, 7).to(torch.int8).expand(x.shape), Outcome.WRONG_RESULT,
    ),
    "one more where nothing overflows": (
        lambda x: scaled(x).nan_to_num(0.0).to(torch.int8) + x.abs().amax(-1, True).gt(1e-3).to(torch.int8),
        Outcome.WRONG_RESULT,
    ),
}  # fmt: skip
"""Kernels for rows of zeros and of denormals, where the reference casts NaN or infinity to an integer."""


@pytest.mark.parametrize("what", CASTS)
@pytest.mark.parametrize("draw", ["structured", "planted", "heavy"])
def test_a_cast_of_what_no_integer_is_near_has_any_result(monkeypatch, what, draw):
    monkeypatch.setitem(REFERENCES, "overflowing", (OVERFLOWING, {"x": ("M", "N")}))
    made = operator("overflowing")
    made = made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "int8"}),)})
    kernel, outcome = CASTS[what]
    for seed in range(3):
        assert CHECK.examine(gather(made, draw, seed, lambda x: kernel(x).unsqueeze(0))).outcome is outcome


def test_whole_numbers_that_do_not_fit_are_no_floats(monkeypatch):
    narrowed = "def narrowed(x):\n    return ((x > 0).to(torch.int64) * 300).to(torch.int8)\n"
    monkeypatch.setitem(REFERENCES, "narrowed", (narrowed, {"x": ("M", "N")}))
    made = operator("narrowed")
    made = made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "int8"}),)})
    assert CHECK.examine(gather(made, "normal", 0, lambda x: (x > 0).to(torch.int8) * 44)).outcome is None
    finding = CHECK.examine(gather(made, "normal", 0, lambda x: (x > 0).to(torch.int8) * 45))
    assert finding.outcome is Outcome.WRONG_RESULT


EXACT = {
    "halved": lambda x: (x.float().clamp(-99, 99) * 0.4999).to(torch.int8) - (x == 2).to(torch.int8),
    "counted": lambda x: (x > 0).to(torch.int8) - 1,
    "argmax": lambda x: x.argmax(-1) ^ 1,
    "rounded": lambda x: (scaled(x) + 0.1).round().clamp(-100, 100).to(torch.int8),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_is_counted_chosen_or_already_whole_has_no_border(name):
    evidence = gather(operator(name), "heavy", 0, EXACT[name])
    assert CHECK.examine(evidence).outcome is Outcome.WRONG_RESULT


HALVES = (
    "def by_half(x):\n"
    "    w = x.float()\n"
    "    scale = (w.abs().amax(-1, keepdim=True) / 127).half()\n"
    "    return (w / scale.float()).clamp(-127, 127).to(torch.int8)\n"
)


@pytest.mark.parametrize("rounds", [True, False])
def test_a_factor_that_the_reference_rounds_may_be_rounded(monkeypatch, rounds):
    monkeypatch.setitem(REFERENCES, "by_half", (HALVES, {"x": ("M", "N")}))
    made = operator("by_half")
    made = made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "int8"}),)})

    def kernel(x):
        scale = x.float().abs().amax(-1, True) / 127
        return (x.float() / (scale.half().float() if rounds else scale)).clamp(-127, 127).to(torch.int8)

    def coarser(x):
        return (x.float() / (x.float().abs().amax(-1, True) / 127).to(torch.float8_e5m2).float()).to(torch.int8)

    assert CHECK.examine(gather(made, "normal", 0, kernel)).outcome is None
    assert CHECK.examine(gather(made, "normal", 0, coarser)).outcome is Outcome.WRONG_RESULT


def test_where_inputs_are_not_finite_the_reason_says_so_and_names_the_bounds():
    def smallest_first(x):
        return x.isnan().int().argmax(-1) + 1

    for draw in ("planted", "normal"):
        reason = CHECK.examine(gather(operator("argmax"), draw, 0, smallest_first)).reason
        assert ("`low` and `high`" in reason and "NaN above all numbers" in reason) is (draw == "planted"), reason
