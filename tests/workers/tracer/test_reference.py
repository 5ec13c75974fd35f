"""Reference export: what becomes a graph, and what is refused with which reason."""

import json
from functools import cache

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
    "lists": ("a, b = torch._foreach_mul([x.float(), x.float() + 1], 2.0)\nreturn (a + b).to(x.dtype)", X),
    "distances": ("return torch.cdist(x.float(), x.float() + 1).to(x.dtype)", X),
    "by PyTorch's definition": (
        "return (x.float() * torch.block_diag(torch.ones(4, 4), torch.ones(4, 4)).trace()).to(x.dtype)",
        X,
    ),
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


M = "x[:, :6], x[:, 2:]"
IMAGE = "x.reshape(1, 2, 4, 8)"
OF_MODELS = {
    "nan_to_num": "torch.nan_to_num(x.log(), nan=2.0)",
    "unsafe_split": "torch.cat(x.unsafe_split(3, -1)[::-1], -1), torch.cat(torch.unsafe_chunk(x, 2, 0)[::-1])",
    "unsafe_split_with_sizes": "x.unsafe_split_with_sizes([3, 5], -1)[1]",
    "special functions": "torch.erfinv(x / 9), torch.lgamma(x), torch.digamma(x), torch.i0(x), torch.special.i0e(x), "
    "torch.special.i1(x), torch.special.i1e(x), torch.special.entr(x.abs()), torch.logit(x.sigmoid()), torch.sinc(x), "
    "torch.asinh(x), torch.acosh(1 + x.abs()), torch.atanh(x / 9), torch.rad2deg(x), torch.deg2rad(x)",
    "signs": "torch.signbit(x), torch.isposinf(x), torch.isneginf(x), torch.heaviside(x, x), "
    "torch.copysign(x, x.flip(0))",
    "activations": "F.celu(x), F.hardshrink(x), F.softshrink(x), F.threshold(x, 0.2, 3.0), F.glu(x), "
    "F.prelu(x, x.new_full((1,), 0.3)), torch.logaddexp(x, x.flip(0)), torch.logaddexp2(x, x.flip(1))",
    "shifts": "torch.bitwise_left_shift(x.long(), 2), torch.bitwise_right_shift(x.long(), 1)",
    "losses": "F.soft_margin_loss(x, x.sign()), F.binary_cross_entropy(x.sigmoid(), x.cos().square()), "
    "F.binary_cross_entropy_with_logits(x, x.cos().square()), F.nll_loss(x.reshape(2, 4, 2, 4), "
    "(x > 0).long().reshape(2, 4, 8)[:, :2, :4])",
    "reductions": "*torch.aminmax(x), torch.logcumsumexp(x, 1), *torch.cummax(x, 1), *torch.cummin(x, 0), "
    "torch.nansum(x), torch.count_nonzero(x > 0), *torch.std_mean(x, 1), torch.renorm(x, 2, 0, 1.0), torch.cdist(x, x)",
    "products": "torch.vdot(x[0], x[1]), torch.addmv(x[0], x, x[1]), torch.addr(x, x[0], x[1]), "
    "torch.linalg.cross(x[:, :3], x[:, 3:6]), F.bilinear(x[:, :4], x[:, 4:7], x[:6].reshape(4, 4, 3))",
    "pooling": f"F.adaptive_max_pool2d({IMAGE}, (2, 3)), F.adaptive_max_pool3d({IMAGE}, (1, 2, 2)), "
    f"F.adaptive_avg_pool1d(x, 3), F.lp_pool2d({IMAGE}.abs(), 2, 2)",
    "resizing": f"F.interpolate({IMAGE}, scale_factor=2), F.interpolate({IMAGE}, (3, 5), mode='bilinear'), "
    f"F.interpolate({IMAGE}, (7, 9), mode='bicubic'), F.interpolate(x[None], 11, mode='linear'), "
    f"F.interpolate(x[None], 5), F.interpolate({IMAGE}[None], (2, 3, 5)), "
    f"F.interpolate({IMAGE}[None], (3, 5, 9), mode='trilinear')",
    "grids": f"F.grid_sample({IMAGE}, x.tanh().reshape(1, 4, 8, 2), align_corners=False), "
    f"F.grid_sample({IMAGE}[None], x.tanh()[:, :6].reshape(1, 2, 2, 4, 3), align_corners=True)",
    "patches": f"F.unfold({IMAGE}, (2, 3)), F.fold(F.unfold({IMAGE}, 2, stride=2), (4, 8), 2, stride=2), "
    f"F.pixel_shuffle(x.reshape(1, 4, 4, 4), 2), F.pixel_unshuffle({IMAGE}, 2), F.channel_shuffle({IMAGE}, 2)",
    "padding": f"F.pad(x, (2, 3), mode='reflect'), F.pad({IMAGE}, (1, 2, 1, 0), mode='reflect'), "
    f"F.pad({IMAGE}[None], (1, 1, 1, 1, 1, 1), mode='reflect'), F.pad(x, (2, 3), mode='replicate'), "
    f"F.pad({IMAGE}, (1, 2, 1, 0), mode='replicate'), F.pad({IMAGE}[None], (1, 1, 1, 1, 1, 1), mode='replicate')",
    "indices": "x.index_add(0, (x[0] > 0).long(), x), x.index_copy(0, torch.arange(8).flip(0), x), "
    "x.index_fill(1, torch.arange(2), 1.5), x.masked_scatter(x > 0, x.flip(0)), torch.take(x, torch.arange(5)), "
    "x.put(torch.arange(3), x[1, :3]), x.scatter_reduce(1, (x > 0).long(), x, 'amax')",
    "parts": "torch.diag_embed(x[0]), torch.rot90(x), x.slice_scatter(x[:3] * 2, 0, 2, 5), "
    "x.select_scatter(x[0], 1, 2), x.diagonal_scatter(x[0])",
    "borders": "torch.bucketize(x, x.flatten().sort().values), torch.searchsorted(x.sort(-1).values, x.flip(0))",
    "triangles": "x[:4, :4][torch.triu_indices(4, 4).unbind()], torch.tril_indices(5, 3)",
    "complex steps": "torch.view_as_real(torch.view_as_complex(x.reshape(8, 4, 2)) * "
    "torch.polar(x[:, :4].abs(), x[:, 4:]).conj()), torch.complex(x, x.flip(0)).real, torch.complex(x, x.flip(0)).imag",
}
"""Calls that models make, with x of 8 by 8, float64."""


ADDED = """
bitwise_left_shift bitwise_right_shift nan_to_num erfinv lgamma digamma i0 special_i0e special_i1 special_i1e
special_entr logit logaddexp logaddexp2 sinc asinh acosh atanh signbit isposinf isneginf heaviside copysign celu
hardshrink softshrink threshold glu _prelu_kernel rad2deg deg2rad nll_loss2d_forward soft_margin_loss
binary_cross_entropy binary_cross_entropy_with_logits aminmax logcumsumexp cummax cummin nansum count_nonzero
std_mean renorm index_add scatter_reduce _cdist_forward vdot addmv addr linalg_cross _trilinear adaptive_max_pool2d
adaptive_max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
upsample_trilinear3d upsample_bicubic2d grid_sampler_2d grid_sampler_3d col2im im2col unsafe_split
unsafe_split_with_sizes index_copy index_fill masked_scatter take put diag_embed rot90 slice_scatter select_scatter
diagonal_scatter bucketize searchsorted pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d
reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d view_as_complex view_as_real
complex polar _conj tril_indices triu_indices
"""
"""Operations that the calls above use."""
DRAWN = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@cache
def of_models(name: str) -> tuple[Graph, tuple[torch.Tensor, ...]]:
    """The graph of calls that models make, and what they give in float64."""
    body = f"return ({OF_MODELS[name]},)"
    right = native(operator(body, X), DRAWN)
    dtypes = tuple(str(each.dtype).removeprefix("torch.").replace("float64", "float32") for each in right)
    return graph(operator(body, {"x": (("M", "N"), "float32")}, dtypes)), right


@pytest.mark.parametrize("name", OF_MODELS)
def test_operations_of_models_are_evaluated_in_float64(name):
    traced, right = of_models(name)
    found = evaluate(traced, [DRAWN], double=True)
    for got, expected in zip(found, right, strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_every_operation_of_models_is_tried() -> None:
    called = {node.op.split(".")[1] for name in OF_MODELS for node in of_models(name)[0].nodes}
    missing = set(ADDED.split()) - called
    assert not missing


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
    "tensor constant": ("return x * torch.tensor([1.0] * 300)[0]", "forbidden_op", "torch.arange", 6),
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
