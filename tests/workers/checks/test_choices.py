"""Indices of computed values that are equal but for rounding are in either order; those of inputs are not."""

import pytest
import torch

from tests.workers.checks.cases import REFERENCES, gather, operator
from workers.checks import CHECKS
from workers.protocol import Outcome

CHECK = CHECKS["exact_integers"]

ROUTED = (
    "def routed(x, w):\n"
    "    p = torch.softmax(x.float() @ w.float(), -1)\n"
    "    return torch.topk(p, 3, dim=-1)[1].to(torch.int32)\n"
)
TOP = "def top(x, w):\n    return torch.softmax(x.float() @ w.float(), -1).max(-1)[1]\n"
FORMS = {"x": ("M", "K"), "w": ("K", "N")}


@pytest.fixture(autouse=True)
def references(monkeypatch):
    for name, source in {"routed": ROUTED, "top": TOP}.items():
        monkeypatch.setitem(REFERENCES, name, (source, FORMS))


def of(name):
    dtype = {"routed": "int32", "top": "int64"}[name]
    made = operator(name)
    return made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": dtype}),)})


def scores(x, w):
    return torch.softmax(x.float() @ w.float(), -1)


def last_of_equals(values, count):
    """The largest, of equal ones the last first."""
    flipped = values.flip(-1)
    return values.shape[-1] - 1 - flipped.sort(dim=-1, stable=True, descending=True).indices[..., :count]


@pytest.mark.parametrize("draw", ["normal", "heavy", "structured", "shifted"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_what_differs_by_rounding_is_open(draw, seed):
    def first(x, w):
        return scores(x, w).sort(dim=-1, stable=True, descending=True).indices[..., :3].int()

    def last(x, w):
        return last_of_equals(scores(x, w), 3).int()

    def in_float64(x, w):
        return torch.softmax(x.double() @ w.double(), -1).topk(3).indices.int()

    for kernel in (first, last, in_float64):
        assert CHECK.examine(gather(of("routed"), draw, seed, kernel)).outcome is None
    assert CHECK.examine(gather(of("top"), draw, seed, lambda x, w: scores(x, w).argmax(-1))).outcome is None


GATED = (
    "def gated(x, w):\n"
    "    p = torch.softmax(x.float() @ w.float(), -1)\n"
    "    chosen, places = torch.topk(p, 2, dim=-1)\n"
    "    return torch.zeros_like(p).scatter(1, places, chosen / chosen.sum(-1, keepdim=True))\n"
)


@pytest.mark.parametrize("draw", ["normal", "heavy", "structured", "shifted"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_chosen_among_equals_is_open_in_floats_and_wrong_choices_are_not(monkeypatch, draw, seed):
    monkeypatch.setitem(REFERENCES, "gated", (GATED, FORMS))
    made = operator("gated")
    made = made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "float32"}),)})

    def gated(x, w, shift=0):
        p = scores(x, w)
        places = last_of_equals(p, 2 + shift)[..., shift:]
        chosen = p.gather(-1, places)
        return torch.zeros_like(p).scatter(1, places, chosen / chosen.sum(-1, keepdim=True))

    check = CHECKS["error_ratio"]
    assert check.examine(gather(made, draw, seed, gated)).outcome is None
    assert check.examine(gather(made, draw, seed, lambda x, w: gated(x, w, 1))).outcome is not None


WRONG = {
    "the second best first": lambda p: p.topk(4).indices[..., 1:],
    "one place twice": lambda p: p.topk(1).indices.expand(*p.shape[:-1], 3),
    "a place beyond": lambda p: p.topk(3).indices + p.shape[-1],
    "a place before": lambda p: p.topk(3).indices - p.shape[-1],
    "values of bfloat16": lambda p: (p.bfloat16() + 0.5).topk(3).indices,
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_rounding_explains_is_wrong(what):
    def kernel(x, w):
        return WRONG[what](scores(x, w)).int()

    assert CHECK.examine(gather(of("routed"), "normal", 0, kernel)).outcome is Outcome.WRONG_RESULT


@pytest.mark.parametrize("seed", range(3))
def test_ties_of_inputs_are_broken_as_in_the_reference(seed):
    found = CHECK.examine(gather(operator("argmax"), "structured", seed, lambda x: last_of_equals(x, 1)[..., 0]))
    assert found.outcome is Outcome.WRONG_RESULT


GROUPED = (
    "def grouped(x, w):\n"
    "    p = torch.sigmoid(x.float() @ w.float())\n"
    "    groups = p.unflatten(-1, (8, -1)).amax(-1)\n"
    "    kept = torch.zeros_like(groups).scatter(1, groups.topk(4, dim=-1).indices, 1.0)\n"
    "    kept = kept.repeat_interleave(p.shape[1] // 8, 1)\n"
    "    return p.masked_fill(kept == 0, float('-inf')).topk(4, dim=-1).indices.to(torch.int32)\n"
)


def grouped(p, groups=4, among=4):
    """The best `among` the best groups; of equal ones the last first."""
    best = last_of_equals(p.unflatten(-1, (8, -1)).amax(-1), groups)
    kept = torch.zeros(len(p), 8).scatter(1, best, 1.0).repeat_interleave(p.shape[1] // 8, 1)
    return last_of_equals(p.masked_fill(kept == 0, float("-inf")), among)[..., -4:].int()


@pytest.fixture
def grouped_operator(monkeypatch):
    monkeypatch.setitem(REFERENCES, "grouped", (GROUPED, FORMS))
    made = operator("grouped")
    return made.model_copy(update={"outputs": (made.outputs[0].model_copy(update={"dtype": "int32"}),)})


@pytest.mark.parametrize("seed", range(6))
def test_a_choice_within_groups_of_equal_scores_is_open(grouped_operator, seed):
    def kernel(x, w):
        return grouped(torch.sigmoid(x.float() @ w.float()))

    found = CHECK.examine(gather(grouped_operator, "structured", seed, kernel, N=64))
    assert found.outcome is None, found.reason


@pytest.mark.parametrize("groups, among", [(3, 4), (4, 5)])
def test_a_group_too_few_or_the_second_best_first_are_wrong(grouped_operator, groups, among):
    def kernel(x, w):
        return grouped(torch.sigmoid(x.float() @ w.float() / 8), groups, among)

    for draw in ("structured", "normal"):
        evidence = gather(grouped_operator, draw, 0, kernel, N=64)
        assert CHECK.examine(evidence).outcome is Outcome.WRONG_RESULT, draw
