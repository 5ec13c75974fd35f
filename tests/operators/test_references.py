import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from service.operators.catalogue import load_catalogue, load_operator
from service.operators.shapes import all_shapes
from tests.operators.formulations import FORMULATIONS, LONGER
from workers.float8 import readable
from workers.inputs import draw
from workers.protocol import Graph, Shape, TraceJob
from workers.reference import evaluate
from workers.tracer.reference import export

OPERATORS = {**load_catalogue(), "my_op": load_operator(Path(__file__).parents[2] / "examples" / "my_op")}
SIZES = {"M": 5, "N": 24, "K": 40, "V": 33, "B": 2, "H": 3, "T": 7, "D": 16}
SIZES |= {"C": 4, "W": 9, "G": 3, "P": 6, "Q": 8, "S": 10, "R": 4, "E": 4, "I": 12, "W1": 4, "W2": 3}
SIZES |= {"J": 6, "L": 3, "window": 3}


def small(operator):
    sizes = SIZES | LONGER.get(operator.name, {})
    return Shape(dims={name: sizes[name] for name in operator.dimensions})


def rotate(q, cos, sin):
    """The pairs of a head as complex numbers, turned by a multiplication."""
    half = q.shape[-1] // 2
    turned = torch.complex(q[..., :half], q[..., half:]) * torch.complex(cos[:, :half], sin[:, :half])
    return torch.cat((turned.real, turned.imag), dim=-1)


def quantized(x):
    scale = x.abs().amax(1) / 448
    return (x.double() / scale.double().unsqueeze(1)).float().to(torch.float8_e4m3fn), scale


def digits(packed, base, count, bits):
    """Packed digits of `bits` bits in all, from the last, by division instead of shifts: a new axis at the end."""
    unsigned = packed.long() % 2**bits
    return torch.stack([unsigned // base**place % base for place in range(count)], dim=-1)


def product_of_four_bits(x, qweight, scales):
    codes = digits(qweight, 16, 8, 32).permute(0, 1, 3, 2).reshape(len(scales), 128, -1)
    return torch.einsum("mgk,gkn,gn->mn", x, codes.to(x.dtype) - 8, scales)


def product_of_trits(x, x_scale, w, w_scale):
    weight = digits(w, 4, 4, 8).double() - 1
    return (torch.einsum("mjk,njk->mn", x.double(), weight) * x_scale.double()[:, None] * w_scale).to(torch.bfloat16)


def splade(x, weight, bias, mask):
    weights = torch.log(1 + torch.relu(torch.einsum("btk,vk->btv", x, weight) + bias))
    return (weights * mask.unsqueeze(2)).amax(1).float().to(x.dtype)


def normed_and_turned(q, k, q_weight, k_weight, cos, sin):
    heads = [functional.rms_norm(x, w.shape, w, 1e-6).transpose(1, 2) for x, w in ((q, q_weight), (k, k_weight))]
    return tuple(rotate(x, cos, sin).transpose(1, 2) for x in heads)


def sigmoids(q, k, v, causal):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    weights = 1 / (1 + q.shape[2] * torch.exp(-scores))
    return torch.einsum("bhqk,bhkd->bhqd", weights.tril() if causal else weights, v)


def windowed(q, k, v, window):
    behind = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=(behind >= 0) & (behind < window))


def paged(q, k_pages, v_pages, page_table, full_pages, last_page_len):
    rows = []
    for row, pages in enumerate(page_table.long()):
        length = int(full_pages[row]) * 16 + int(last_page_len[row])
        k, v = (cache[pages].flatten(0, 1)[:length].transpose(0, 1) for cache in (k_pages, v_pages))
        rows.append(functional.scaled_dot_product_attention(q[row], k, v))
    return torch.stack(rows)


def residual(x, branch, weight, scale):
    total = x + scale * branch
    return functional.rms_norm(total, weight.shape, weight, 1e-6), total


INDEPENDENT = {
    "softmax": lambda x: functional.softmax(x, dim=-1),
    "rmsnorm": lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
    "layernorm": lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias, 1e-5),
    "cross_entropy": functional.cross_entropy,
    "swiglu": lambda gate, up: functional.silu(gate) * up,
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
    "rope": rotate,
    "rope_half": rotate,
    "matmul": lambda a, b: torch.einsum("mk,kn->mn", a, b),
    "attention": lambda q, k, v, causal: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
    "argmax": lambda logits: logits.argmax(-1),
    "my_op": residual,
    "quantize_fp8": quantized,
    "gate_up_swiglu": lambda x, gate, up: functional.silu(functional.linear(x, gate)) * functional.linear(x, up),
    "lm_head_sparse": splade,
    "w4a16_matmul": product_of_four_bits,
    "ternary_matmul": product_of_trits,
    "linear_cross_entropy": lambda x, weight, target: functional.cross_entropy(
        functional.linear(x, weight), target, reduction="none"
    ).float(),
    "qk_norm_rope": normed_and_turned,
    "sigmoid_attention": sigmoids,
    "sliding_window_attention": windowed,
    "decode_attention": functional.scaled_dot_product_attention,
    "paged_decode": paged,
}
INDEPENDENT |= {f"{name}_backward": INDEPENDENT[name] for name in ("rmsnorm", "layernorm", "softmax", "swiglu", "gelu")}
INDEPENDENT |= FORMULATIONS
"""What each operator computes, written another way."""
IN_DOUBLE = {"matmul", "gate_up_swiglu", "lm_head_sparse", "linear_cross_entropy", "w4a16_matmul"}
"""Products of matrices in the inputs' dtype: in float32, another order of their sums would show."""


def arguments(operator, dtype=None):
    """Inputs and scalars at a small shape, float inputs in `dtype`; the angles of a rotation are given twice."""
    tensors = list(draw(operator, small(operator), "normal", 11))[: len(operator.inputs)]
    for index, item in enumerate(operator.inputs):
        if item.name in ("cos", "sin") and item.shape[-1] != "R":
            tensors[index] = torch.cat((tensors[index][:, :8],) * 2, dim=-1)
    if dtype:
        tensors = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors]
    return tensors, operator.scalar_values(small(operator).dims)


def reference(operator):
    namespace = {}
    exec(operator.reference, namespace)
    return namespace[operator.entry]


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def exported(operator, shapes):
    job = TraceJob(id="job", search="search", operator=operator, shapes=shapes, target="sm_90")
    reply = json.loads(export(job.model_dump_json().encode()))
    assert "graphs" in reply, reply
    return [Graph.model_validate(graph) for graph in reply["graphs"]]


@pytest.mark.parametrize("name", OPERATORS)
def test_reference_equals_another_formulation(name):
    tensors, scalars = arguments(OPERATORS[name], torch.float64 if name in IN_DOUBLE else torch.float32)
    got = as_tuple(reference(OPERATORS[name])(*tensors, *scalars))
    expected = as_tuple(INDEPENDENT[name](*tensors, *scalars))
    assert len(got) == len(expected) == len(OPERATORS[name].outputs)
    for have, want in zip(got, expected, strict=True):
        assert have.dtype == want.dtype
        torch.testing.assert_close(readable(have), readable(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_reference_returns_the_declared_dtypes(name):
    tensors, scalars = arguments(OPERATORS[name])
    got = as_tuple(reference(OPERATORS[name])(*tensors, *scalars))
    assert [str(value.dtype) for value in got] == [f"torch.{output.dtype}" for output in OPERATORS[name].outputs]


def test_the_page_shows_how_argmax_states_its_rule():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "operator-spec.md").read_text()
    section = page.partition("## Integer and boolean results")[2].partition("\n## ")[0]
    shown = section.partition("```python\n")[2].partition("```")[0]
    assert shown and OPERATORS["argmax"].reference.endswith(shown)


def test_argmax_takes_the_first_and_nan_for_the_largest():
    rows = torch.tensor([[1.0, 3.0, 3.0], [3.0, float("nan"), float("nan")], [-float("inf")] * 3, [-0.0, 0.0, -1.0]])
    got = reference(OPERATORS["argmax"])(rows.bfloat16())
    assert got.tolist() == rows.argmax(-1).tolist() == [1, 1, 0, 0]


def test_attention_looks_at_later_positions_only_without_causal():
    tensors, _ = arguments(OPERATORS["attention"], torch.float32)
    got = reference(OPERATORS["attention"])(*tensors, False)
    torch.testing.assert_close(got, functional.scaled_dot_product_attention(*tensors), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_reference_exports_at_every_shape(name):
    shapes = all_shapes(OPERATORS[name], seed=3)
    graphs = exported(OPERATORS[name], shapes)
    assert [graph.shape for graph in graphs] == list(shapes)
    assert max(len(graph.nodes) for graph in graphs) < 160


@pytest.mark.parametrize("name", OPERATORS)
def test_exported_graph_computes_the_reference(name):
    operator = OPERATORS[name]
    tensors, scalars = arguments(operator)
    (graph,) = exported(operator, (small(operator),))
    expected = as_tuple(reference(operator)(*tensors, *scalars))
    if operator.backward:
        upstream = list(draw(operator, small(operator), "normal", 11))[len(tensors) :]
        leaves = [tensors[index].requires_grad_() for index in operator.differentiated]
        outputs = as_tuple(reference(operator)(*tensors, *scalars))
        expected = (*expected, *torch.autograd.grad(outputs, leaves, upstream))
        tensors = [*(tensor.detach() for tensor in tensors), *upstream]
    for have, want in zip(evaluate(graph, tensors, double=False), expected, strict=True):
        assert have.dtype == want.dtype
        torch.testing.assert_close(readable(have), readable(want), rtol=0, atol=0)


@pytest.mark.parametrize("name", OPERATORS)
def test_float32_results_come_of_float32_arithmetic(name):
    """What a reference rounds away on the way, candidates may, too: what they may miss follows from what it misses."""
    operator = OPERATORS[name]
    (graph,) = exported(operator, (small(operator),))
    tensors = draw(operator, small(operator), "normal", 11)
    native, exact = (evaluate(graph, tensors, double=double) for double in (False, True))
    for have, want in zip(native, exact, strict=True):
        if have.dtype == torch.float32:
            assert float((have - want).norm() / want.norm()) < 2.0**-18
