"""Errors are held against those of honest arithmetic: noise of the dtype passes, a factor does not."""

import itertools
from dataclasses import replace

import pytest
import torch

from tests.gpu.contracts import operators
from tests.workers.checks.cases import HONEST, REFERENCES, SIZES, as_timed, examine, gather, graph_of, operator
from workers.checks import CHECKS, Expectation
from workers.checks.tolerance import SENSITIVITY_WORST, RowErrors, bounds_without_sensitivity
from workers.inputs import DRAWS, PLANTED
from workers.protocol import Outcome, Shape

CHECK = CHECKS["error_ratio"]
FINITE = tuple(name for name in DRAWS if name not in PLANTED)


def _after(change, dtype="bfloat16"):
    return CHECK.examine(gather(operator("rmsnorm", dtype), "normal", 0, lambda *a: change(HONEST["rmsnorm"](*a))))


def test_an_honest_kernel_is_far_from_the_border():
    assert _after(lambda y: y).worst < 1


def test_zeros_are_wrong():
    assert _after(torch.zeros_like).outcome is Outcome.WRONG_RESULT


def test_a_factor_of_a_thousandth_shows_in_float32():
    assert _after(lambda y: y * 1.001, "float32").outcome in (Outcome.WRONG_RESULT, Outcome.PRECISION)


def test_results_rounded_to_half_show_in_float32():
    assert _after(lambda y: y.half().float(), "float32").outcome in (Outcome.WRONG_RESULT, Outcome.PRECISION)


def test_coarse_products_of_float32_are_told_where_to_add_up():
    coarse = {"matmul": lambda a, b: a.bfloat16().float() @ b, "gelu": lambda x: HONEST["gelu"](x).half().float()}
    seen = [gather(operator(name, "float32"), "normal", 1, kernel) for name, kernel in coarse.items()]
    finding, rounded = map(CHECK.examine, seen)
    assert finding.outcome is rounded.outcome is Outcome.PRECISION
    assert "max_num_imprecise_acc" in finding.reason and "max_num_imprecise_acc" not in rounded.reason


@pytest.mark.parametrize("units", [2, 7, 26])
def test_an_element_that_is_all_of_its_row_may_be_off_by_what_a_quotient_and_a_sum_of_the_card_are(units):
    """By 6 roundoffs and by 16, the root of the 1,024 terms in halves; a unit is one of them below 1, and two above."""

    def off(x):
        y = shifted = HONEST["softmax"](x)
        for _ in range(units):
            shifted = torch.nextafter(shifted, torch.tensor(2.0))
        return torch.where(y > 0.9, shifted, y)

    for seed in range(6):
        found = CHECK.examine(gather(operator("softmax", "float32"), "heavy", seed, off, M=64, N=1024))
        assert found.outcome is (None if units < 26 else Outcome.PRECISION)


@pytest.mark.parametrize("large", [14.0, 16.0, 18.0])
def test_an_element_that_is_nearly_all_of_a_sum_takes_each_of_its_roundings(large):
    """As one warp adds rows up from the end, which another order would add last: up to 14 roundoffs."""
    op, shape = operator("softmax", "float32"), Shape(dims={"M": 256, "N": 1024})
    x = torch.randn(256, 1024, generator=torch.Generator().manual_seed(0))
    x[:, -1] = large
    powers, lanes = torch.exp(x - x.amax(-1, keepdim=True)), torch.zeros(256, 32)
    for part in powers.flip(1).split(32, -1):
        lanes += part
    while lanes.shape[-1] > 1:
        lanes = lanes[:, 0::2] + lanes[:, 1::2]
    outputs, reference = (powers / lanes,), Expectation(op, graph_of(op, shape), (x,), "normal")
    evidence = gather(op, "normal", 0, lambda given: outputs[0], M=256, N=1024)
    assert CHECK.examine(replace(evidence, inputs=(x,), inputs_after=(x,), reference=reference)).outcome is None
    assert ((outputs[0].double() - reference.expected[0])[:, -1] * 2**24).abs().max() > 6


@pytest.mark.parametrize(("name", "allowed"), [("gelu", 6), ("softmax", 6 + 16)])
def test_sums_are_allowed_for_where_there_are_sums(name, allowed):
    evidence = gather(operator(name, "float32"), "normal", 0, HONEST[name], M=8, N=1024)
    assert bounds_without_sensitivity(evidence, RowErrors.of(evidence, 0)).own == allowed * 2**-24


def test_larger_errors_measure_worse():
    worst = [_after(lambda y, e=e: y * (1 + e), "float32").worst for e in (0.0, 1e-3, 1e-2, 1e-1)]
    assert worst == sorted(worst)


def test_equal_errors_all_over_a_row_are_named_too():
    def off(x):
        result = HONEST["gelu"](x)
        level = (x == x[:, :1]).all(1)
        result[level] = result[level] * 1.02
        return result

    findings = [CHECK.examine(gather(operator("gelu"), "structured", seed, off, M=16, N=129)) for seed in (2, 3)]
    assert all(finding.outcome is Outcome.PRECISION and "129 of" in finding.reason for finding in findings)


def test_few_elements_may_miss_more_where_time_counts_and_there_alone():
    def off(every):
        def kernel(*inputs):
            result = HONEST["attention"](*inputs)
            row = result.flatten()[::every]
            row += 0.045 * result.float().square().mean().sqrt()
            return result

        return gather(operator("attention"), "normal", 0, kernel)

    assert CHECK.examine(off(4999)).outcome is not None
    assert CHECK.examine(as_timed(off(4999))).outcome is None
    assert CHECK.examine(as_timed(off(97))).outcome is not None


def test_few_rows_may_miss_more_where_time_counts_and_there_alone():
    def off(every):
        def kernel(*inputs):
            result = HONEST["attention"](*inputs)
            rows = result.view(-1, 96)[700::every]
            rows += 0.01 * rows.float().square().mean(1, keepdim=True).sqrt() * (-1) ** torch.arange(96)
            return result

        return gather(operator("attention"), "normal", 0, kernel, M=1024)

    assert CHECK.examine(off(4096)).outcome is Outcome.PRECISION
    assert CHECK.examine(as_timed(off(4096))).outcome is None
    assert CHECK.examine(as_timed(off(64))).outcome is Outcome.PRECISION


def test_a_factor_that_is_rounded_on_the_way_passes_in_short_rows_too():
    """Two roundings move some large elements by more than one roundoff of their own, but none by more than two."""

    def rounded_twice(gate, up):
        return torch.nn.functional.silu(gate.float()).to(gate.dtype) * up

    for rows, columns in ((17, 129), (149, 5), (64, 40)):
        findings = [
            CHECK.examine(gather(operator("swiglu"), "normal", seed, rounded_twice, M=rows, N=columns))
            for seed in range(8)
        ]
        assert [finding.outcome for finding in findings] == [None] * 8


def test_a_few_elements_too_far_off_pass_and_many_do_not():
    def off(count):
        def kernel(x):
            result = HONEST["softmax"](x)
            small = result.float().abs() < result.float().square().mean().sqrt() / 4
            places = small.flatten().nonzero()[:count]
            result.view(-1)[places] += 6 * 2**-8 * result.float().square().mean().sqrt().to(result.dtype)
            return result

        return CHECK.examine(gather(operator("softmax"), "normal", 0, kernel)).outcome

    assert [off(1), off(400)] == [None, Outcome.PRECISION]


def _loss(logits, factor=1.0):
    """What is said of a loss that is a logarithm of a sum less a logit, both in float32."""
    op, shape = operator("cross_entropy"), Shape(dims={"M": len(logits), "N": len(logits[0])})
    inputs = torch.tensor(logits, dtype=torch.bfloat16), torch.zeros(len(logits), dtype=torch.int64)
    wide = inputs[0].float()
    outputs = ((torch.logsumexp(wide, -1) - wide[:, 0]).mean() * factor,)
    reference = Expectation(op, graph_of(op, shape), inputs, "normal")
    evidence = gather(op, "normal", 0, lambda *a: outputs, M=len(logits), N=len(logits[0]))
    return CHECK.examine(replace(evidence, inputs=inputs, inputs_after=inputs, reference=reference))


def test_a_loss_near_zero_has_the_digits_that_its_terms_have():
    near_zero = [[57.75, 47.25]], [[18.0, 9.8125]], [[-5.8125, -14.8125]]
    assert [_loss(logits).outcome for logits in near_zero] == [None] * 3
    assert _loss([[57.75, 47.25]], factor=2.0).outcome is not None
    assert _loss([[0.5, 1.5], [2.0, -1.0]]).outcome is None
    assert _loss([[0.5, 1.5], [2.0, -1.0]], factor=1.0001).outcome is not None


def _in_int8(values):
    """Values of rows to int8 and back, with a scale for every 128 of a row."""
    groups = values.float().reshape(len(values), -1, 128)
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return ((groups / scale).round() * scale).reshape(values.shape)


def test_products_in_int8_show_in_what_is_timed():
    generator = torch.Generator().manual_seed(0)
    op, shape = operator("matmul"), Shape(dims={"M": 32, "K": 2048, "N": 32})
    a, b = (torch.randn(size, generator=generator).bfloat16() for size in ((32, 2048), (2048, 32)))
    a[3, 5] = b[7, 9] = 40.0
    evidence = gather(op, "normal", 0, HONEST["matmul"], **shape.dims)
    outcomes = []
    for result in (HONEST["matmul"](a, b), (_in_int8(a) @ _in_int8(b.t()).t()).bfloat16()):
        reference = Expectation(op, graph_of(op, shape), (a, b), "timed")
        found = replace(evidence, draw="timed", inputs=(a, b), outputs=(result,), reference=reference)
        outcomes.append(CHECK.examine(found).outcome)
    assert outcomes == [None, Outcome.PRECISION]


def _from_what_was_handed(x, grad_y):
    """A softmax's gradient from its rounded result, as PyTorch computes it."""
    y = HONEST["softmax"](x)
    wide, upstream = y.float(), grad_y.float()
    return y, (wide * (upstream - (wide * upstream).sum(-1, keepdim=True))).to(x.dtype)


@pytest.mark.parametrize("draw", ["shifted", "heavy"])
def test_a_gradient_may_be_computed_from_the_result_that_it_is_handed(draw: str):
    op = operators()["softmax_backward"]
    sizes = [{"M": 65, "N": 129}, {"M": 3, "N": 11}]
    cases = [gather(op, draw, seed, _from_what_was_handed, **dims) for dims in sizes for seed in range(6)]
    assert [CHECK.examine(case).outcome for case in cases] == [None] * 12


def test_equal_results_that_are_handed_are_rounded_alike():
    op = operators()["softmax_backward"]
    cases = [gather(op, "shifted", seed, _from_what_was_handed, M=140, N=140) for seed in range(12)]
    assert [CHECK.examine(case).outcome for case in cases] == [None] * 12


def test_a_gradient_may_not_be_coarser_than_the_result_that_it_is_handed():
    op = operators()["softmax_backward"]

    def coarser(x, grad_y):
        y, grad_x = _from_what_was_handed(x, grad_y)
        return y, grad_x * (1 + 2**-5 * torch.sign(torch.randn(grad_x.shape))).to(x.dtype)

    assert all(CHECK.examine(gather(op, "normal", seed, coarser, M=65, N=129)).outcome for seed in range(3))


def _loss_of_products(x, weight, target):
    """A cross-entropy as the logarithm of a sum less a logit, which may be as large as it."""
    logits = x.float() @ weight.float().T
    return torch.logsumexp(logits, -1) - logits.gather(1, target[:, None])[:, 0]


def test_a_loss_near_zero_keeps_no_more_than_products_do():
    op = operators()["linear_cross_entropy"]
    findings = [CHECK.examine(gather(op, "shifted", seed, _loss_of_products, M=1, K=1, V=2)) for seed in range(60)]
    assert all(finding.outcome is None for finding in findings)


def _clamped_products(change):
    """What is said of a clamp of products, half of whose rows are zero but for their first element.

    Args:
        change: Changes the result, told what the reference says of it.
    """
    op, shape = operator("clamped_products", "float32"), Shape(dims={"M": 4096, "K": 80, "N": 96})
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.rand(size, generator=generator) for size in ((4096, 80), (80, 96)))
    a[::2] *= -1
    b[:, 0] *= torch.arange(80) % 2 * 2 - 1
    result = (a @ b).clamp(min=0)
    reference = Expectation(op, graph_of(op, shape), (a, b), "normal")
    change(result, reference)
    evidence = gather(op, "normal", 0, lambda *a: result, **shape.dims)
    return CHECK.examine(replace(evidence, inputs=(a, b), inputs_after=(a, b), reference=reference)).outcome


def test_rounding_takes_few_results_across_the_border_of_a_clamp():
    def across(rows: int, missed: float):
        return _clamped_products(lambda result, _: result[: 2 * rows : 2, 5].add_(missed))

    assert [across(rows, 4e-6) for rows in (0, 1, 4, 40)] == [None, None, None, Outcome.WRONG_RESULT]
    assert across(1, 1e-2) is Outcome.WRONG_RESULT


def test_one_element_that_no_clamp_took_may_miss_what_the_worst_of_its_row_may():
    def missing(rows: int, by: float):
        def change(result, _):
            left = (result[::2, 0] > 1).nonzero()[:rows, 0] * 2
            result[left, 0] += by

        return _clamped_products(change)

    assert [missing(rows, 6e-5) for rows in (0, 1, 40)] == [None, None, Outcome.PRECISION]
    assert missing(1, 1e-3) is Outcome.PRECISION


def test_a_value_that_the_first_nudges_hardly_move_is_nudged_further():
    def missing(share: float):
        def change(result, reference):
            left = (result[::2, 0] > 1).nonzero()[:, 0] * 2
            at = left[reference.sensitivity[0][left, 0].argmin()]
            few, many = reference.sensitivity[0][at, 0], reference.full_sensitivity[0][at, 0]
            assert many > 5 * few
            result[at, 0] = reference.expected[0][at, 0] + share * SENSITIVITY_WORST * many
            taken = (result[::2].sum(1) == 0).nonzero()[0, 0] * 2
            result[taken, 5] += 4e-6  # What rounding takes across is, in a row of zeros, no matter of few bits.

        return _clamped_products(change)

    assert missing(0.9) is None and missing(1.5) is Outcome.WRONG_RESULT


def _rounded(values, bits):
    """Round float32 values to a mantissa of so many bits, to nearest."""
    lost = 23 - bits
    return ((values.contiguous().view(torch.int32) + (1 << (lost - 1))) & -(1 << lost)).view(torch.float32)


def _activated(bits):
    return lambda a, b: torch.nn.functional.gelu(_rounded(a, bits) @ _rounded(b, bits))


@pytest.mark.parametrize("allowed", [True, "convolutions"])
def test_where_tf32_is_allowed_it_passes_on_every_draw_and_bfloat16_does_not(allowed, monkeypatch):
    source = "def products(a, b):\n    return torch.nn.functional.gelu(a @ b)\n"
    monkeypatch.setitem(REFERENCES, "products", (source, {"a": ("M", "K"), "b": ("K", "N")}))
    op = operator("products", "float32", precision={"allow_tf32": allowed})
    outcomes = {
        bits: {examine(gather(op, name, seed, _activated(bits)))[1].outcome for name in FINITE for seed in range(3)}
        for bits in (10, 7)
    }
    if allowed is True:
        assert outcomes[10] == {None}
        assert {Outcome.PRECISION, Outcome.WRONG_RESULT} & outcomes[7]
        single = gather(op, "normal", 0, _activated(7))
        assert examine(single)[1].outcome is not None, "one ordinary draw suffices"
    else:
        assert None not in {examine(gather(op, "normal", seed, _activated(10)))[1].outcome for seed in range(3)}


def test_factors_that_matrix_units_cut_pass_where_tf32_is_allowed(monkeypatch):
    """A mean of activated products keeps the bias of cut factors: those of few results all err to one side."""

    def cut(values):
        return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)

    def kernel(a, b):
        return torch.nn.functional.gelu(cut(a) @ cut(b)).mean(1)

    source = "def products(a, b):\n    return torch.nn.functional.gelu(a @ b).mean(1)\n"
    monkeypatch.setitem(REFERENCES, "products", (source, {"a": ("M", "K"), "b": ("K", "N")}))
    op = operator("products", "float32", precision={"allow_tf32": True})
    for name in FINITE:
        for seed in range(6):
            evidence = gather(op, name, seed, kernel, M=1, N=2, K=72)
            assert examine(evidence)[1].outcome is None, (name, seed)


def test_rounded_factors_pass_before_a_sigmoid_on_heavy_inputs_and_those_of_bfloat16_do_not(monkeypatch):
    """Few elements that do not saturate have nearly all of their row's error, and other ones in the native answer."""

    def activated(bits):
        def kernel(a, b):
            product = _rounded(a, bits) @ _rounded(b, bits)
            return torch.sigmoid(torch.nn.functional.gelu(product)) + 1.0

        return kernel

    source = "def products(a, b):\n    return torch.sigmoid(torch.nn.functional.gelu(a @ b)) + 1.0\n"
    monkeypatch.setitem(REFERENCES, "products", (source, {"a": ("M", "K"), "b": ("K", "N")}))
    op = operator("products", "float32", precision={"allow_tf32": True})

    def refused(bits, seeds):
        kernel = activated(bits)
        found = [examine(gather(op, "heavy", seed, kernel, M=3, N=62, K=216))[1].outcome for seed in range(seeds)]
        return sum(outcome is not None for outcome in found)

    assert refused(10, 40) == 0
    assert refused(7, 40) >= 10, "in many draws all elements saturate, and nothing shows"


def _tf32_operator(monkeypatch, formula, names=("a", "b"), allowed=True):
    shapes = {"a": ("M", "K"), "b": ("K", "N"), "c": ("N", "L")}
    source = f"def products({', '.join(names)}):\n    return {formula}\n"
    monkeypatch.setitem(REFERENCES, "products", (source, {name: shapes[name] for name in names}))
    monkeypatch.setitem(SIZES, "L", 24)
    return operator("products", "float32", precision={"allow_tf32": allowed})


def _cut(values):
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("dims", [{"M": 3, "N": 62, "K": 216}, {}])
def test_results_in_bfloat16_do_not_pass_as_tf32_before_a_sigmoid(monkeypatch, dims):
    """They are near one: a bound by their scale alone allowed it."""
    op = _tf32_operator(monkeypatch, "torch.sigmoid(torch.nn.functional.gelu(a @ b)) + 1.0")

    def kernel(a, b):
        return _rounded(torch.sigmoid(torch.nn.functional.gelu(_cut(a) @ _cut(b))) + 1.0, 7)

    assert Outcome.PRECISION in {examine(gather(op, "normal", seed, kernel, **dims))[1].outcome for seed in range(3)}


def test_operations_without_products_are_float32_where_tf32_is_allowed(monkeypatch):
    op = _tf32_operator(monkeypatch, "torch.softmax(a, -1)", ("a",))
    for kernel, right in (
        (lambda a: torch.softmax(a, -1), True),
        (lambda a: _rounded(torch.softmax(a, -1), 10), False),
    ):
        assert (examine(gather(op, "normal", 0, kernel))[1].outcome is None) is right


@pytest.mark.parametrize("products", list(itertools.product(("cut", "rounded", "exact"), repeat=2)))
def test_each_product_may_be_tf32_or_not(monkeypatch, products):
    change = {"cut": _cut, "rounded": lambda values: _rounded(values, 10), "exact": lambda values: values}
    first, second = (change[name] for name in products)
    op = _tf32_operator(monkeypatch, "torch.nn.functional.gelu(a @ b) @ c", ("a", "b", "c"))

    def kernel(a, b, c):
        return second(torch.nn.functional.gelu(first(a) @ first(b))) @ second(c)

    for name in FINITE:
        for dims in ({}, {"M": 1, "N": 17, "K": 33, "L": 2}):
            assert examine(gather(op, name, 0, kernel, **dims))[1].outcome is None, (name, dims)


def test_products_that_are_spelled_out_may_be_tf32(monkeypatch):
    op = _tf32_operator(monkeypatch, "(a[:, :, None] * b[None]).sum(1)")
    assert all(
        examine(gather(op, name, 0, lambda a, b: _cut(a) @ _cut(b), M=8, N=33))[1].outcome is None for name in FINITE
    )
