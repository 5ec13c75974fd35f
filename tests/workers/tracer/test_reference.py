"""Reference export: what becomes a graph, and what is refused with which reason."""

import json

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workers.baselines.module import spread, to_module
from workers.protocol import Graph, Input, Operator, Output, Shape, TraceJob
from workers.reference import evaluate
from workers.tracer.reference import Flops, count_flops, export

HEADER = "import torch\nimport torch.nn.functional as F\n\n\n"


def operator(body: str, inputs: dict[str, tuple], outputs: tuple[str, ...] = ("bfloat16",), **extra) -> Operator:
    names = ", ".join(inputs)
    arguments = names + "".join(f", {scalar['name']}" for scalar in extra.get("scalars", ()))
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    dims = {d: 8 for shape, *_ in inputs.values() for d in shape if isinstance(d, str)}
    return Operator(
        name="op",
        entry="op",
        reference=f"{HEADER}def op({arguments}):\n{lines}\n",
        inputs=tuple(
            Input(name=name, shape=shape, dtype=dtype[0] if dtype else "bfloat16", high=4.0 if dtype else None)
            for name, (shape, *dtype) in inputs.items()
        ),
        outputs=tuple(Output(name=f"y{index}", dtype=dtype) for index, dtype in enumerate(outputs)),
        shapes=({"dims": dims},),
        **extra,
    )


def run(op: Operator, *dims: dict[str, int]) -> dict:
    shapes = tuple(Shape(dims=point) for point in dims) or (Shape(dims=op.shapes[0].dims),)
    job = TraceJob(id="j", search="s", operator=op, shapes=shapes, target="sm_90")
    return json.loads(export(job.model_dump_json().encode()))


def graph(op: Operator, *dims: dict[str, int]) -> Graph:
    reply = run(op, *dims)
    assert "graphs" in reply, reply
    return Graph.model_validate(reply["graphs"][0])


def native(op: Operator, *inputs: torch.Tensor) -> torch.Tensor:
    namespace: dict = {}
    exec(op.reference, namespace)
    return namespace["op"](*inputs, *(scalar.value for scalar in op.scalars))


X = {"x": (("M", "N"),)}
EXPORTABLE = {
    "rmsnorm": (
        "v = x.float()\nreturn (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)",
        {**X, "w": (("N",),)},
    ),
    "functional rms_norm": ("return F.rms_norm(x, (x.shape[-1],), w, 1e-6)", {**X, "w": (("N",),)}),
    "layernorm": (
        "return F.layer_norm(x.float(), (x.shape[-1],), w.float(), b.float(), 1e-5).to(x.dtype)",
        {**X, "w": (("N",),), "b": (("N",),)},
    ),
    "softmax": ("return F.softmax(x, -1, dtype=torch.float32).to(x.dtype)", X),
    "gelu": ("return F.gelu(x.float(), approximate='tanh').to(x.dtype)", X),
    "swiglu": ("return (F.silu(x.float()) * u.float()).to(x.dtype)", {**X, "u": (("M", "N"),)}),
    "matmul": ("return (x.float() @ b.float()).to(x.dtype)", {**X, "b": (("N", "K"),)}),
    "linear": ("return F.linear(x, w)", {**X, "w": (("K", "N"),)}),
    "causal attention by hand": (
        "s = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5\n"
        "mask = torch.ones(s.shape[-2], s.shape[-1], dtype=torch.bool, device=q.device).tril()\n"
        "return (torch.softmax(s.masked_fill(~mask, float('-inf')), -1) @ v.float()).to(q.dtype)",
        {name: ((1, 2, "T", 16),) for name in "qkv"},
    ),
    "scaled_dot_product_attention": (
        "return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True).to(q.dtype)",
        {name: ((1, 2, "T", 16),) for name in "qkv"},
    ),
    "factories without a device": (
        "f = 1.0 / (10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1]))\n"
        "return (x * torch.cat([f, f]) + torch.full((x.shape[-1],), 0.5)).to(x.dtype)",
        X,
    ),
    "writes into its own tensor": (
        "o = torch.zeros(x.shape, device=x.device)\no[:, :4] = x[:, :4].float()\no += 1\nreturn o.to(x.dtype)",
        X,
    ),
    "a number as a tensor": ("return x * torch.tensor(2.5, dtype=x.dtype)", X),
}


@pytest.mark.parametrize("name", EXPORTABLE)
def test_a_graph_computes_what_the_reference_computes(name):
    body, inputs = EXPORTABLE[name]
    op = operator(body, inputs)
    torch.manual_seed(0)
    dims = dict.fromkeys(op.dimensions, 8)
    tensors = [torch.randn(op.input_shape(item, dims), dtype=torch.bfloat16) for item in op.inputs]
    (got,) = evaluate(graph(op), tensors, double=False)
    torch.testing.assert_close(got, native(op, *tensors), rtol=0, atol=0)


def test_cross_entropy_takes_integer_targets_and_a_scalar_result():
    op = operator(
        "return F.cross_entropy(logits.float(), target)",
        {"logits": (("M", "V"),), "target": (("M",), "int64")},
        ("float32",),
    )
    logits, target = torch.randn(8, 8, dtype=torch.bfloat16), torch.randint(0, 8, (8,))
    exported = graph(op)
    assert exported.output_shapes == ((),)
    torch.testing.assert_close(evaluate(exported, [logits, target], double=False)[0], native(op, logits, target))


def test_scalars_follow_the_inputs_and_several_results_keep_their_order():
    op = operator(
        "return x * scale, x.argmax(-1)",
        X,
        ("bfloat16", "int64"),
        scalars=({"name": "scale", "dtype": "float", "value": 3.0},),
    )
    x = torch.randn(8, 8, dtype=torch.bfloat16)
    product, index = evaluate(graph(op), [x], double=True)
    torch.testing.assert_close(product, x.double() * 3)
    torch.testing.assert_close(index, x.argmax(-1))


def test_every_shape_gets_its_own_graph():
    op = operator("return x * x.shape[0]", X)
    reply = run(op, {"M": 3, "N": 5}, {"M": 7, "N": 1})
    assert [item["output_shapes"] for item in reply["graphs"]] == [[[3, 5]], [[7, 1]]]


def test_an_input_may_be_returned_as_it_is():
    x = torch.randn(8, 8, dtype=torch.bfloat16)
    assert torch.equal(evaluate(graph(operator("return x", X)), [x], double=False)[0], x)


@pytest.mark.parametrize(
    "body", ["x.mul_(2)\nx[:, 0] = 7", "x.mul_(2)\nx[:, 0] = 7\nreturn x", "y = x * 2\ny[:, 0] = 7\nreturn y"]
)
def test_the_content_of_an_input_is_a_result(body):
    spec = operator(body, X).model_dump()
    spec["inputs"][0]["mutable"] = True
    op = Operator.model_validate({**spec, "outputs": [{"name": "x", "dtype": "bfloat16"}]})
    x = torch.randn(8, 8, dtype=torch.bfloat16)
    before, wanted = x.clone(), x * 2
    wanted[:, 0] = 7
    assert torch.equal(evaluate(graph(op), [x], double=False)[0], wanted) and torch.equal(x, before)
    eager = spread(to_module(graph(op), 1, torch.device("cpu")))
    assert torch.equal(eager([x])[0], wanted) and torch.equal(x, wanted) == ("x.mul_" in body)


REFUSED = {
    "random": ("y = x * 2\nreturn y + torch.randn_like(x)", "forbidden_op", "random", 7),
    "dropout": ("return F.dropout(x, 0.5)", "forbidden_op", "random", 6),
    "item": ("return x * x.sum().item()", "forbidden_op", "torch.where", 6),
    "branch on values": ("if x.sum() > 0:\n    return x\nreturn -x", "forbidden_op", "torch.where", 6),
    "boolean indexing": ("return x[x > 0]", "forbidden_op", "values", 6),
    "input changed in place": ("x.add_(1)\nreturn x * 2", "forbidden_op", "input 'x' in place: make it mutable", 6),
    "view of an input changed": ("x[:, 0].zero_()\nreturn x * 2", "forbidden_op", "input 'x' in place", 6),
    "bits reinterpreted": ("return x.view(torch.int16).view(torch.bfloat16)", "forbidden_op", "aten.view.dtype", 6),
    "tensor constant": ("return x * torch.tensor([1.0, 2.0])[0]", "forbidden_op", "torch.arange", None),
    "wrong dtype": ("return x.float()", "wrong_output_type", "float32", None),
    "too many results": ("return x, x", "wrong_output_type", "bfloat16, bfloat16", None),
    "no tensor": ("return 3", "wrong_output_type", "must return tensors", None),
    "raises": ("return x + missing", "trace_crashed", "NameError", 6),
    "bad import": ("import nothing_of_that_name\nreturn x", "forbidden_import", "nothing_of_that_name", 6),
    "does not parse": ("return x +", "syntax_error", "does not parse", 6),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused_with_the_line(name):
    body, outcome, hint, line = REFUSED[name]
    reply = run(operator(body, X))
    assert (reply["outcome"], reply["line"]) == (outcome, line)
    assert hint in reply["reason"]


def test_a_reference_without_the_entry_is_refused():
    op = operator("return x", X).model_copy(update={"reference": "def other(x):\n    return x\n"})
    reply = run(op)
    assert reply["outcome"] == "forbidden_op"
    assert "'op'" in reply["reason"]


def counted(function, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Flops:
    with FakeTensorMode():
        traced = make_fx(function)(*(torch.empty(shape, dtype=dtype) for shape in shapes))
    return count_flops(traced.graph.nodes)


def test_a_matrix_product_takes_two_operations_for_each_pair() -> None:
    assert counted(lambda a, b: a @ b, (8, 4), (4, 16)) == Flops(2 * 8 * 4 * 16, 0)
    assert counted(torch.bmm, (3, 8, 4), (3, 4, 16)).matrix == 3 * 2 * 8 * 4 * 16


@pytest.mark.parametrize(
    "function, flops",
    [
        (lambda x: x + 1, 32),
        (lambda x: (x * x).sum(-1), 64),
        (lambda x: x.t().reshape(-1)[:3].double(), 0),
        (lambda x: x.view(-1), 0),
        (lambda x: x.argmax() + 1, 32),
    ],
)
def test_all_else_counts_once_an_element_and_views_count_nothing(function, flops: int) -> None:
    assert counted(function, (4, 8)) == Flops(0, flops)


def test_whole_numbers_are_no_floating_point() -> None:
    assert counted(lambda x: x + 1, (4, 8), dtype=torch.int64) == Flops(0, 0)
