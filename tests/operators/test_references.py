import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from service.operators.catalogue import load_catalogue, load_operator
from service.operators.shapes import all_shapes
from workers.inputs import draw
from workers.protocol import Graph, Shape, TraceJob
from workers.reference import evaluate
from workers.tracer.reference import export

OPERATORS = {**load_catalogue(), "my_op": load_operator(Path(__file__).parents[2] / "examples" / "my_op")}
SIZES = {"M": 5, "N": 24, "K": 40, "V": 33, "B": 2, "H": 3, "T": 7, "D": 16}


def small(operator):
    return Shape(dims={name: SIZES[name] for name in operator.dimensions})


def rotate(q, cos, sin):
    """The pairs of a head as complex numbers, turned by a multiplication."""
    half = q.shape[-1] // 2
    turned = torch.complex(q[..., :half], q[..., half:]) * torch.complex(cos[:, :half], sin[:, :half])
    return torch.cat((turned.real, turned.imag), dim=-1)


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
    "matmul": lambda a, b: torch.einsum("mk,kn->mn", a, b),
    "attention": lambda q, k, v, causal: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
    "my_op": residual,
}
INDEPENDENT |= {f"{name}_backward": INDEPENDENT[name] for name in ("rmsnorm", "layernorm", "softmax", "swiglu", "gelu")}
"""What each operator computes, written another way."""


def arguments(operator, dtype=None):
    """Inputs and scalars at a small shape, float inputs in `dtype`; the angles of a rotation are given twice."""
    tensors = list(draw(operator, small(operator), "normal", 11))[: len(operator.inputs)]
    if operator.name == "rope":
        tensors[1:] = [torch.cat((table[:, :8], table[:, :8]), dim=-1) for table in tensors[1:]]
    if dtype:
        tensors = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors]
    return tensors, [scalar.value for scalar in operator.scalars]


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
    tensors, scalars = arguments(OPERATORS[name], torch.float64 if name == "matmul" else torch.float32)
    got = as_tuple(reference(OPERATORS[name])(*tensors, *scalars))
    expected = as_tuple(INDEPENDENT[name](*tensors, *scalars))
    assert len(got) == len(expected) == len(OPERATORS[name].outputs)
    for have, want in zip(got, expected, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_reference_returns_the_declared_dtypes(name):
    tensors, scalars = arguments(OPERATORS[name])
    got = as_tuple(reference(OPERATORS[name])(*tensors, *scalars))
    assert [str(value.dtype) for value in got] == [f"torch.{output.dtype}" for output in OPERATORS[name].outputs]


def test_attention_looks_at_later_positions_only_without_causal():
    tensors, _ = arguments(OPERATORS["attention"], torch.float32)
    got = reference(OPERATORS["attention"])(*tensors, False)
    torch.testing.assert_close(got, functional.scaled_dot_product_attention(*tensors), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_reference_exports_at_every_shape(name):
    shapes = all_shapes(OPERATORS[name], seed=3)
    graphs = exported(OPERATORS[name], shapes)
    assert [graph.shape for graph in graphs] == list(shapes)
    assert max(len(graph.nodes) for graph in graphs) < 100


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
        torch.testing.assert_close(have, want, rtol=0, atol=0)
