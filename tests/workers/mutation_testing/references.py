"""Small references, and what the gate makes of them."""

import json
from functools import cache

import torch

from workers.inputs import draw
from workers.mutation_testing.builder import TypedGraph
from workers.protocol import Graph, Operator, Shape, ShapeRole, TraceJob
from workers.reference import evaluate
from workers.tracer.reference import export

HEADER = "import torch\nimport torch.nn.functional as F\n\n\n"
SMALL = {"M": 6, "N": 40, "K": 40}
RANGES = {"M": (1, 64), "N": (2, 512), "K": (1, 64)}

MATRIX = {"x": (("M", "N"), "float32")}
PAIR = {"x": (("M", "N"), "float32"), "y": (("M", "N"), "float32")}
FACTORS = {"x": (("M", "K"), "float32"), "y": (("K", "N"), "float32")}
HALF = {"x": (("M", "N"), "bfloat16")}

LAYERS = {"lstm": ("LSTM", 4, ""), "gru": ("GRU", 3, ""), "rnn_tanh": ("RNN", 1, "")} | {
    "rnn_relu": ("RNN", 1, ", nonlinearity='relu', bidirectional=True")
}
"""Recurrent layers: module, gates, and further settings. They take 4 positions of 3 values, and have 5 hidden ones."""


def recurrent(name: str) -> tuple[str, dict[str, tuple[tuple[str | int, ...], str]], tuple[str, ...]]:
    """A reference of one recurrent module, its states and weights as inputs."""
    module, gates, more = LAYERS[name]
    sides = 2 if more else 1
    states = ["h", "c"] if name == "lstm" else ["h"]
    inputs = {"x": (("M", 4, 3), "float32")} | dict.fromkeys(states, ((2 * sides, "M", 5), "float32"))
    weights = []
    for layer in range(2):
        for side in ("", "_reverse")[:sides]:
            shapes = {"weight_ih": (gates * 5, 5 * sides if layer else 3), "weight_hh": (gates * 5, 5)}
            shapes |= {"bias_ih": (gates * 5,), "bias_hh": (gates * 5,)}
            inputs |= {f"{kind}_l{layer}{side}": (shape, "float32") for kind, shape in shapes.items()}
            weights += [f"{kind}_l{layer}{side}" for kind in shapes]
    state = "(h, c)" if name == "lstm" else "h"
    given = ", ".join(f"{weight}={weight}" for weight in weights)
    source = (
        f"m = torch.nn.{module}(3, 5, 2, batch_first=True{more})\n\n\ndef f({', '.join(inputs)}):\n"
        f"    y, last = torch.func.functional_call(m, dict({given}), (x, {state}))\n"
        f"    return y, {'*last' if name == 'lstm' else 'last'}"
    )
    return source, inputs, ("float32",) * (1 + len(states))


REFERENCES = {
    "rmsnorm": (
        "def f(x, w):\n    v = x.float()\n"
        "    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)",
        {"x": (("M", "N"), "bfloat16"), "w": (("N",), "bfloat16")},
        ("bfloat16",),
    ),
    "softmax": ("def f(x):\n    return torch.softmax(x, -1)", HALF, ("bfloat16",)),
    "log_softmax": ("def f(x):\n    return torch.log_softmax(x, -1)", MATRIX, ("float32",)),
    "layer_norm": (
        "def f(x, w, b):\n    return F.layer_norm(x, (x.shape[-1],), w, b, 1e-5)",
        {"x": (("M", "N"), "bfloat16"), "w": (("N",), "bfloat16"), "b": (("N",), "bfloat16")},
        ("bfloat16",),
    ),
    "gelu_layer_norm": (
        "def f(x):\n    return F.layer_norm(F.gelu(x.float()), (x.shape[-1],)).to(x.dtype)", HALF, ("bfloat16",)
    ),
    "lost": ("def f(x):\n    return torch.where(x.abs().amax() > 100, x, torch.sin(x * 1e7))", MATRIX, ("float32",)),
    "moved_layer_norm": (
        "def f(x):\n    return F.layer_norm(x.t(), (x.shape[0],)).view(-1)", MATRIX, ("float32",)
    ),
    "finite": ("def f(x):\n    return torch.isfinite(x)", MATRIX, ("bool",)),
    "never": ("def f(x):\n    return x.abs() < -1", MATRIX, ("bool",)),
    "variance": ("def f(x):\n    return x.var(-1), x.var((0, 1), keepdim=True)", MATRIX, ("float32", "float32")),
    "quantised": (
        "def f(x):\n    w = x.float()\n"
        "    return (w / w.abs().amax(-1, keepdim=True).clamp_min(1e-9) * 448).to(torch.float8_e4m3fn)",
        HALF,
        ("float8_e4m3fn",),
    ),
    "silu": ("def f(x):\n    return F.silu(x)", HALF, ("bfloat16",)),
    "gelu": ("def f(x):\n    return F.gelu(x, approximate='tanh')", HALF, ("bfloat16",)),
    "gelu_erf": ("def f(x):\n    return F.gelu(x)", MATRIX, ("float32",)),
    "linear": (
        "def f(x, w, b):\n    return F.relu(F.linear(x, w, b))",
        {"x": (("M", "K"), "bfloat16"), "w": (("N", "K"), "bfloat16"), "b": (("N",), "bfloat16")},
        ("bfloat16",),
    ),
    "product": ("def f(x, y):\n    return x @ y", FACTORS, ("float32",)),
    "loss": (
        "def f(x, t):\n    s = x - x.amax(-1, keepdim=True)\n"
        "    return (torch.log(torch.exp(s).sum(-1)) - s.gather(1, t[:, None]).squeeze(1)).mean()",
        {"x": (("M", "N"), "float32"), "t": (("M",), "int64")},
        ("float32",),
    ),
    "embedding": (
        "def f(i, w):\n    return F.embedding(i, w)",
        {"i": (("M",), "int64"), "w": (("N", 8), "bfloat16")},
        ("bfloat16",),
    ),
    "ranked": (
        "def f(x):\n    count = (x > x.mean(-1, keepdim=True)).sum(-1, keepdim=True)\n"
        "    return x.gather(1, (count - 1).clamp(min=0))",
        MATRIX,
        ("float32",),
    ),
    "causal": ("def f(x):\n    return torch.where(x > 1, x, -x).tril().sum(-1)", MATRIX, ("float32",)),
    "masked": (
        "def f(x, m):\n    return x.masked_fill(m, 0.0).sum(-1), torch.sigmoid(x).triu()",
        {"x": (("M", "N"), "float32"), "m": (("M", "N"), "bool")},
        ("float32", "float32"),
    ),
    "largest": ("def f(x):\n    return x.argmax(-1), x.amin(-1)", HALF, ("int64", "bfloat16")),
    "first": (
        "def f(x):\n    i = torch.arange(x.shape[-1], device=x.device)\n"
        "    return torch.where(x == x.amax(-1, keepdim=True), i, x.shape[-1]).amin(-1)",
        HALF,
        ("int64",),
    ),
    "last": (
        "def f(x):\n    i = torch.arange(x.shape[-1], device=x.device)\n"
        "    return torch.where(x == x.amax(-1, keepdim=True), i, -1).amax(-1)",
        HALF,
        ("int64",),
    ),
    "turned": ("def f(x):\n    a, b = x.chunk(2, -1)\n    return torch.cat((-b, a), -1).flip(0)", MATRIX, ("float32",)),
    "added": ("def f(x, y):\n    return x + y", PAIR, ("float32",)),
    "running": ("def f(x):\n    return x.cumsum(-1)", MATRIX, ("float32",)),
    "doubled": ("def f(x):\n    return (x.float() * 2).to(x.dtype)", HALF, ("bfloat16",)),
    "copy": ("def f(x):\n    return x.clone()", HALF, ("bfloat16",)),
    "zeros": ("def f(x):\n    return torch.zeros_like(x)", MATRIX, ("float32",)),
    "negligible": ("def f(x):\n    return x * 1e-46", MATRIX, ("float32",)),
    "undefined": ("def f(x):\n    return x * float('nan')", MATRIX, ("float32",)),
    "constant": ("def f(x):\n    return torch.full_like(x, 3.0)", MATRIX, ("float32",)),
    **{name: recurrent(name) for name in LAYERS},
    "jumping": ("def f(x):\n    return (x.sum(-1) * 1e6).round().long()", MATRIX, ("int64",)),
}  # fmt: skip
"""References by name: source, inputs with shape and dtype, dtypes of the outputs."""


def operator(name: str, **extra: object) -> Operator:
    """An operator over one of the references."""
    source, inputs, outputs = REFERENCES[name]
    fields = [
        {"name": item, "shape": shape, "dtype": dtype, **({"low": 0, "high": "N"} if dtype == "int64" else {})}
        for item, (shape, dtype) in inputs.items()
    ]
    dims = {size for shape, _ in inputs.values() for size in shape if isinstance(size, str)}
    return Operator.model_validate(
        {
            "name": name,
            "entry": "f",
            "reference": HEADER + source + "\n",
            "inputs": fields,
            "outputs": [{"name": f"out{i}", "dtype": dtype} for i, dtype in enumerate(outputs)],
            "shapes": [{"dims": {size: SMALL[size] for size in dims}}],
            "ranges": {size: RANGES[size] for size in dims},
            **extra,
        }
    )


def graphs_of(of: Operator, *points: dict[str, int]) -> tuple[Graph, ...]:
    """The reference at boundary shapes: the given sizes, the others small."""
    shapes = [_shape(of, point) for point in points or ({},)]
    return _exported(of.model_dump_json(), tuple(shape.model_dump_json() for shape in shapes))


def _shape(of: Operator, point: dict[str, int]) -> Shape:
    dims = {size: point.get(size, SMALL[size]) for size in of.dimensions}
    return Shape(dims=dims, role=ShapeRole.BOUNDARY)


@cache
def _exported(of: str, shapes: tuple[str, ...]) -> tuple[Graph, ...]:
    job = TraceJob(
        id="j",
        search="s",
        operator=Operator.model_validate_json(of),
        shapes=tuple(map(Shape.model_validate_json, shapes)),
        target="sm_90",
    )
    answer = json.loads(export(job.model_dump_json().encode()))
    assert "graphs" in answer, answer
    return tuple(map(Graph.model_validate, answer["graphs"]))


def sketch_of(of: Operator, **point: int) -> tuple[TypedGraph, tuple[torch.Tensor, ...]]:
    """A sketch of the reference at a shape, and inputs for it."""
    (graph,) = graphs_of(of, point)
    inputs = draw(of, graph.shape, "normal", 0)
    return TypedGraph.of(graph, inputs), inputs


def results(graph: Graph, inputs: tuple[torch.Tensor, ...], *, double: bool = False) -> tuple[torch.Tensor, ...]:
    """What a graph computes."""
    return evaluate(graph, inputs, double=double)
