"""Operators in torch: references, honest kernels that compute in other ways, and kernels with a planted fault."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch

from workers.checks import CHECKS, CheckEvidence, CheckFinding, Expectation
from workers.commands import TIMED
from workers.inputs import draw
from workers.protocol import Graph, Operator, Shape, TraceJob
from workers.tracer.reference import export

BF16 = "bfloat16"
Implementation = Callable[..., torch.Tensor]

REFERENCES = {
    "rmsnorm": (
        "def rmsnorm(x, weight):\n    v = x.float()\n"
        "    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).to(x.dtype)\n",
        {"x": ("M", "N"), "weight": ("N",)},
    ),
    "layernorm": (
        "def layernorm(x, weight, bias):\n"
        "    return torch.nn.functional.layer_norm(x.float(), (x.shape[-1],), weight.float(), bias.float(), 1e-5)"
        ".to(x.dtype)\n",
        {"x": ("M", "N"), "weight": ("N",), "bias": ("N",)},
    ),
    "softmax": ("def softmax(x):\n    return torch.softmax(x.float(), -1).to(x.dtype)\n", {"x": ("M", "N")}),
    "gelu": (
        "def gelu(x):\n    return torch.nn.functional.gelu(x.float(), approximate='tanh').to(x.dtype)\n",
        {"x": ("M", "N")},
    ),
    "swiglu": (
        "def swiglu(gate, up):\n    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)\n",
        {"gate": ("M", "N"), "up": ("M", "N")},
    ),
    "matmul": (
        "def matmul(a, b):\n    return (a.float() @ b.float()).to(a.dtype)\n",
        {"a": ("M", "K"), "b": ("K", "N")},
    ),
    "clamped_products": (
        "def clamped_products(a, b):\n    return (a @ b).clamp(min=0)\n",
        {"a": ("M", "K"), "b": ("K", "N")},
    ),
    "attention": (
        "def attention(q, k, v):\n"
        "    s = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5\n"
        "    mask = torch.ones(s.shape[-2:], dtype=torch.bool, device=q.device).tril()\n"
        "    return (torch.softmax(s.masked_fill(~mask, float('-inf')), -1) @ v.float()).to(q.dtype)\n",
        {"q": (1, "H", "M", "N"), "k": (1, "H", "M", "N"), "v": (1, "H", "M", "N")},
    ),
    "cross_entropy": (
        "def cross_entropy(logits, target):\n    return torch.nn.functional.cross_entropy(logits.float(), target)\n",
        {"logits": ("M", "N"), "target": ("M",)},
    ),
    "argmax": ("def argmax(x):\n    return x.argmax(-1)\n", {"x": ("M", "N")}),
    "positive": ("def positive(x):\n    return x > 0\n", {"x": ("M", "N")}),
    "quantised": (
        "def quantised(x):\n"
        "    w = x.float()\n"
        "    return (w / (w.abs().amax(-1, keepdim=True) / 127)).to(torch.int8)\n",
        {"x": ("M", "N")},
    ),
    "rounded": (
        "def rounded(x):\n"
        "    w = x.float()\n"
        "    return (w / (w.abs().amax(-1, keepdim=True) / 127)).round().clamp(-100, 100).to(torch.int8)\n",
        {"x": ("M", "N")},
    ),
    "halved": ("def halved(x):\n    return (x.float().clamp(-99, 99) * 0.5).to(torch.int8)\n", {"x": ("M", "N")}),
    "counted": ("def counted(x):\n    return (x > 0).to(torch.int8)\n", {"x": ("M", "N")}),
    "row_max": ("def row_max(x):\n    return x.amax(-1)\n", {"x": ("M", "N")}),
    "row_min": ("def row_min(x):\n    return x.amin(-1)\n", {"x": ("M", "N")}),
    "at_least_two": ("def at_least_two(x):\n    return x.clamp(min=2.0)\n", {"x": ("M", "N")}),
    "at_most_minus_two": ("def at_most_minus_two(x):\n    return x.clamp(max=-2.0)\n", {"x": ("M", "N")}),
    "pooled": (
        "def pooled(x):\n    return torch.nn.functional.max_pool2d(x[None, None], 8)[0, 0]\n",
        {"x": ("M", "N")},
    ),
    "first_powers": (
        "def first_powers(x, weight):\n"
        "    first = torch.arange(x.shape[-1], device=x.device) < 8\n"
        "    return (torch.exp(x.float() * weight.float()) * first.float()).to(x.dtype)\n",
        {"x": ("M", "N"), "weight": ("N",)},
    ),
}
SIZES = {"M": 48, "N": 96, "K": 80, "H": 2}


def operator(name: str, dtype: str = BF16, **extra) -> Operator:
    source, inputs = REFERENCES[name]
    out = {"cross_entropy": "float32", "argmax": "int64", "positive": "bool"}.get(name, dtype)
    out = "int8" if name in ("quantised", "rounded", "halved", "counted") else out
    dims = {d: SIZES[d] for shape in inputs.values() for d in shape if isinstance(d, str)}
    return Operator(
        name=name,
        entry=name,
        reference=f"import torch\n\n\n{source}",
        inputs=tuple(
            {"name": item, "shape": shape, "dtype": dtype}
            if item != "target"
            else {"name": item, "shape": shape, "dtype": "int64", "high": "N"}
            for item, shape in inputs.items()
        ),
        outputs=({"name": "y", "dtype": out},),
        shapes=({"dims": dims},),
        **extra,
    )


def graph_of(op: Operator, shape: Shape) -> Graph:
    return _export(op.model_dump_json(), shape.model_dump_json())


@cache
def _export(operator_json: str, shape_json: str) -> Graph:
    op, shape = Operator.model_validate_json(operator_json), Shape.model_validate_json(shape_json)
    job = TraceJob(id="j", search="s", operator=op, shapes=(shape,), target="sm_90")
    return Graph.model_validate(json.loads(export(job.model_dump_json().encode()))["graphs"][0])


def gather(op: Operator, name: str, seed: int, kernel: Implementation, **dims: int) -> CheckEvidence:
    """Evidence for a kernel written in torch, which may change the inputs it is given."""
    shape = Shape(dims={d: SIZES[d] for d in op.dimensions if d not in dims} | dims)
    inputs, reference = _expect(op.model_dump_json(), shape.model_dump_json(), name, seed)
    after = tuple(tensor.clone() for tensor in inputs)
    result = kernel(*after)
    outputs = result if isinstance(result, tuple) else (result,)
    return CheckEvidence(
        operator=op, shape=shape, draw=name, inputs=inputs, inputs_after=after, outputs=outputs, reference=reference
    )


@cache
def _expect(operator_json: str, shape_json: str, name: str, seed: int) -> tuple[tuple[torch.Tensor, ...], Expectation]:
    op, shape = Operator.model_validate_json(operator_json), Shape.model_validate_json(shape_json)
    inputs = draw(op, shape, name, seed)
    return inputs, Expectation(op, graph_of(op, shape), inputs, name)


def as_timed(evidence: CheckEvidence) -> CheckEvidence:
    """The same case as if it were timed."""
    graph = graph_of(evidence.operator, evidence.shape)
    return replace(evidence, draw=TIMED, reference=Expectation(evidence.operator, graph, evidence.inputs, TIMED))


def examine(evidence: CheckEvidence) -> tuple[str, CheckFinding]:
    """The first check that fails, or the last one with its finding."""
    for check in CHECKS.values():
        finding = check.examine(evidence)
        if finding.outcome is not None:
            break
    return check.name, finding


def _chunks(values: torch.Tensor, size: int = 32) -> torch.Tensor:
    """A row sum in float32, as a kernel with a block of `size` does it: lane by lane, then a tree."""
    total = torch.zeros((*values.shape[:-1], size))
    for part in values.split(size, -1):
        total[..., : part.shape[-1]] += part
    while total.shape[-1] > 1:
        total = total[..., 0::2] + total[..., 1::2]
    return total


def rmsnorm(x, weight, eps=1e-6, total=None, size=None):
    v = x.float()
    mean = _chunks(v * v) / v.shape[-1] if total is None else total(v) / (size or v.shape[-1])
    return (v / torch.sqrt(mean + eps) * weight.float()).to(x.dtype)


def layernorm(x, weight, bias):
    v = x.float()
    centred = v - _chunks(v) / v.shape[-1]
    scale = torch.rsqrt(_chunks(centred * centred) / v.shape[-1] + 1e-5)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)


def softmax(x):
    v = x.float() * 1.4426950408889634
    e = torch.exp2(v - v.amax(-1, keepdim=True))
    return (e / _chunks(e)).to(x.dtype)


def gelu(x):
    v = x.float()
    return (v * torch.sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v))).to(x.dtype)


def swiglu(gate, up):
    g = gate.float()
    return (g / (1 + torch.exp(-g)) * up.float()).to(gate.dtype)


def matmul(a, b, tile=32):
    total = torch.zeros(a.shape[0], b.shape[1])
    for left, right in zip(a.float().split(tile, 1), b.float().split(tile, 0), strict=True):
        total += left @ right
    return total.to(a.dtype)


def attention(q, k, v, narrow=True, tile=16):
    """Blocks of keys with an online softmax and probabilities in the inputs' dtype, as flash attention does it."""
    rows = torch.arange(q.shape[-2])
    out = torch.zeros(q.shape)
    for first in range(0, len(rows), tile):
        mine = slice(first, first + tile)
        top = torch.full((*q[..., mine, :].shape[:-1], 1), float("-inf"))
        total, acc = torch.zeros_like(top), torch.zeros(q[..., mine, :].shape)
        for start in range(0, min(first + tile, len(rows)), tile):
            keys = slice(start, start + tile)
            s = q[..., mine, :].float() @ k[..., keys, :].float().transpose(-1, -2) * q.shape[-1] ** -0.5
            s = s.masked_fill(rows[keys][None] > rows[mine][:, None], float("-inf"))
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            keep = torch.exp(top - new)
            total = total * keep + p.sum(-1, keepdim=True)
            acc = acc * keep + (p.to(v.dtype) if narrow else p).float() @ v[..., keys, :].float()
            top = new
        out[..., mine, :] = acc / total
    return out.to(q.dtype)


def cross_entropy(logits, target):
    v = logits.float()
    top = v.amax(-1, keepdim=True)
    losses = torch.log(_chunks(torch.exp(v - top))) + top - v.gather(1, target[:, None])
    total = torch.zeros(())
    for loss in losses.flatten():
        total = total + loss / len(losses)
    return total


HONEST: dict[str, Implementation] = {
    "rmsnorm": rmsnorm, "layernorm": layernorm, "softmax": softmax, "gelu": gelu, "swiglu": swiglu, "matmul": matmul,
    "attention": attention, "cross_entropy": cross_entropy, "argmax": lambda x: x.argmax(-1),
}  # fmt: skip
"""Correct kernels that sum in another order, use other formulas, or narrow what kernels usually narrow."""


def _half_matmul(a, b, tile=16):
    """A product that is rounded to the inputs' dtype after every step along the inner dimension."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for left, right in zip(a.float().split(tile, 1), b.float().split(tile, 0), strict=True):
        total = (total.float() + left @ right).to(a.dtype)
    return total


def _tf32(values: torch.Tensor) -> torch.Tensor:
    return (values.view(torch.int32) & ~0x1FFF).view(torch.float32)


def _poison_tail(result: torch.Tensor, columns: int) -> torch.Tensor:
    result[..., -columns:] = float("nan")
    return result


def _mutate(x, result):
    x[0, 0] += 1
    return result


FAULTS: dict[str, tuple[str, Implementation, set[str]]] = {
    "zeros": ("rmsnorm", lambda x, w: torch.zeros_like(x), {"wrong_result"}),
    "ones": ("softmax", torch.ones_like, {"wrong_result"}),
    "copy of the input": ("gelu", torch.clone, {"wrong_result"}),
    "the first row for all": ("rmsnorm", lambda x, w: rmsnorm(x, w)[:1].repeat(len(x), 1), {"wrong_result"}),
    "scaled by 1.001": ("rmsnorm", lambda x, w: (rmsnorm(x.float(), w.float()) * 1.001).to(x.dtype), {"precision"}),
    "scaled by 1.01": (
        "matmul", lambda a, b: (matmul(a.float(), b.float()) * 1.01).to(a.dtype), {"precision", "wrong_result"}
    ),
    "last tile dropped": ("swiglu", lambda g, u: _poison_tail(swiglu(g, u), 16), {"wrong_result"}),
    "last tile zero": (
        "matmul", lambda a, b: torch.nn.functional.pad(matmul(a, b)[:, :-16], (0, 16)), {"wrong_result"}
    ),
    "mask off by one": ("softmax", lambda x: torch.nn.functional.pad(softmax(x[:, :-1]), (0, 1)), {"wrong_result"}),
    "missing bias": ("layernorm", lambda x, w, b: layernorm(x, w, b * 0), {"wrong_result"}),
    "missing epsilon": ("rmsnorm", lambda x, w: rmsnorm(x, w, eps=0.0), {"wrong_result", "precision"}),
    "wrong axis": ("softmax", lambda x: torch.softmax(x.float(), 0).to(x.dtype), {"wrong_result"}),
    "reduction cut to 90%": (
        "rmsnorm",
        lambda x, w: rmsnorm(x, w, total=lambda v: _chunks(v[:, : v.shape[1] * 9 // 10] ** 2)),
        {"wrong_result"},
    ),
    "accumulated in bfloat16": ("matmul", _half_matmul, {"precision"}),
    "tf32": ("matmul:float32", lambda a, b: _tf32(a) @ _tf32(b), {"precision"}),
    "no maximum": (
        "softmax",
        lambda x: (torch.exp(x.float()) / torch.exp(x.float()).sum(-1, keepdim=True)).to(x.dtype),
        {"wrong_result"},
    ),
    "rounded by truncation": (
        "swiglu",
        lambda g, u: (swiglu(g.float(), u.float()).view(torch.int32) & ~0xFFFF).view(torch.float32).to(g.dtype),
        {"precision"},
    ),
    "nan swallowed": ("rmsnorm", lambda x, w: rmsnorm(x, w).nan_to_num(0.0), {"wrong_result"}),
    "causal mask left out": (
        "attention",
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float()).to(q.dtype),
        {"wrong_result"},
    ),
    "input changed": ("rmsnorm", lambda x, w: _mutate(x, rmsnorm(x.clone(), w)), {"input_mutated"}),
    "float32 returned": ("rmsnorm", lambda x, w: rmsnorm(x.float(), w.float()), {"wrong_output_type"}),
    "shape transposed": ("softmax", lambda x: softmax(x).T, {"wrong_output_type"}),
    "last index of a tie": ("argmax", lambda x: x.shape[1] - 1 - x.flip(1).argmax(-1), {"wrong_result"}),
    "sum for mean": ("cross_entropy", lambda x, t: cross_entropy(x, t) * len(t), {"wrong_result"}),
    "target off by one": ("cross_entropy", lambda x, t: cross_entropy(x, (t + 1) % x.shape[1]), {"wrong_result"}),
}  # fmt: skip
"""Kernels with a planted fault: operator (and dtype), implementation, and the outcomes that describe it."""

LONGER = {"accumulated in bfloat16": {"K": 400}}
"""Sizes that must be larger for a fault to show: five roundings are few."""
