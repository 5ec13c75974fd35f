"""Ordinary operators beside the catalogue: what people have, with statistics that rows share and few filters."""

from workers.protocol import Operator

_CONVOLUTION = {"x": ("B", "C", "H", "W"), "weight": ("O", "C", 3, 3), "bias": ("O",)}
_CALL = "torch.nn.functional.conv2d(x, weight, bias, padding=1)"
_FEW = {"B": 2, "C": 3, "H": 20, "W": 20, "O": 2}
_MAP = {"x": ("B", "C", "H", "W")}
_MAPS = {"B": 4, "C": 6, "H": 16, "W": 16}
_ROWS, _WIDE = {"x": ("M", "N")}, {"M": 64, "N": 96}
_PRODUCT = {"a": ("M", "K"), "b": ("K", "N")}
_SIZES = {"M": 48, "N": 40, "K": 200}
_LINEAR = {"x": ("M", "K"), "weight": ("N", "K"), "bias": ("N",)}
_HEADS = {"q": ("H", "M", "D"), "k": ("H", "M", "D"), "v": ("H", "M", "D")}

_FORMULAS: dict[str, tuple[str, dict[str, tuple[str | int, ...]], dict[str, int]]] = {
    "frobenius_norm": ("x / x.norm()", _ROWS, _WIDE),
    "standardised": ("(x - x.mean()) / (x.std() + 1e-5)", _ROWS, _WIDE),
    "over_largest": ("x / x.abs().amax() * x.abs().mean()", _ROWS, _WIDE),
    "l2_norm": ("x / x.norm(dim=-1, keepdim=True)", _ROWS, _WIDE),
    "column_norm": ("(x - x.mean(0)) * torch.rsqrt(x.var(0, unbiased=False) + 1e-5)", _ROWS, _WIDE),
    "layer_norm": ("torch.nn.functional.layer_norm(x, (x.shape[-1],))", _ROWS, _WIDE),
    "softmax": ("torch.softmax(x, -1)", _ROWS, _WIDE),
    "log_softmax": ("torch.log_softmax(x, -1)", _ROWS, _WIDE),
    "logsumexp": ("torch.logsumexp(x, -1)", _ROWS, {"M": 600, "N": 64}),
    "running_sum": ("torch.cumsum(x, -1)", _ROWS, _WIDE),
    "row_variance": ("x.var(-1)", _ROWS, {"M": 600, "N": 64}),
    "gelu": ("torch.nn.functional.gelu(x)", _ROWS, _WIDE),
    "batch_norm": ("torch.nn.functional.batch_norm(x, None, None, training=True)", _MAP, _MAPS),
    "batch_norm_of_few": ("torch.nn.functional.batch_norm(x, None, None, training=True)", _MAP, {**_MAPS, "C": 2}),
    "instance_norm": ("torch.nn.functional.instance_norm(x)", _MAP, {**_MAPS, "C": 2, "B": 2}),
    "group_norm": ("torch.nn.functional.group_norm(x, 2)", _MAP, {**_MAPS, "B": 2}),
    "channel_rms": ("x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5)", _MAP, _MAPS),
    "average_pool": ("torch.nn.functional.avg_pool2d(x, 3)", _MAP, {**_MAPS, "H": 33, "W": 33}),
    "conv": (_CALL, _CONVOLUTION, {**_FEW, "O": 8, "C": 8, "H": 14, "W": 14}),
    "conv_of_few_filters": (_CALL, _CONVOLUTION, _FEW),
    "conv_of_one_filter": (_CALL, _CONVOLUTION, {**_FEW, "O": 1, "C": 8}),
    "conv_of_one_image": (_CALL, _CONVOLUTION, {**_FEW, "B": 1, "O": 4, "C": 6}),
    "conv_instance_norm": (f"torch.nn.functional.instance_norm({_CALL}) / 2.0", _CONVOLUTION, _FEW),
    "conv_hardswish_relu": (f"torch.relu(torch.nn.functional.hardswish({_CALL}))", _CONVOLUTION, _FEW),
    "conv_leaky_relu": (f"torch.nn.functional.leaky_relu({_CALL} / 2, 0.01)", _CONVOLUTION, _FEW),
    "conv_transposed": (
        "torch.nn.functional.conv_transpose2d(x, weight)",
        {"x": ("B", "C", "H", "W"), "weight": ("C", "O", 3, 3)},
        _FEW,
    ),
    "conv_1d": (
        "torch.nn.functional.conv1d(x, weight)", {"x": ("B", "C", "H"), "weight": ("O", "C", 5)},
        {"B": 8, "C": 4, "H": 80, "O": 2},
    ),
    "conv_depthwise": (
        "torch.nn.functional.conv2d(x, weight, groups=x.shape[1])",
        {"x": ("B", "C", "H", "W"), "weight": ("C", 1, 3, 3)},
        {**_FEW, "B": 4},
    ),
    "matmul": ("a @ b", _PRODUCT, _SIZES),
    "matmul_of_one_row": ("a @ b", _PRODUCT, {"M": 1, "N": 640, "K": 200}),
    "matmul_of_few_columns": ("a @ b", _PRODUCT, {"M": 600, "N": 3, "K": 200}),
    "matmul_long": ("a @ b", _PRODUCT, {"M": 24, "N": 32, "K": 3000}),
    "linear_gelu": ("torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias))", _LINEAR, _SIZES),
    "linear_batch_norm_gelu": (
        "torch.nn.functional.gelu(torch.nn.functional.batch_norm("
        "torch.nn.functional.linear(x, weight, bias), None, None, training=True))",
        _LINEAR,
        _SIZES,
    ),
    "linear_batch_norm_gelu_relu": (
        "torch.relu(torch.nn.functional.gelu(torch.nn.functional.batch_norm("
        "torch.nn.functional.linear(x, weight, bias), None, None, training=True)))",
        _LINEAR,
        {"M": 140, "N": 140, "K": 140},
    ),
    "linear_affine_batch_norm_gelu_relu": (
        "torch.relu(torch.nn.functional.gelu(torch.nn.functional.batch_norm("
        "torch.nn.functional.linear(x, weight, bias), None, None, gamma, beta, training=True)))",
        {**_LINEAR, "gamma": ("N",), "beta": ("N",)},
        {"M": 140, "N": 140, "K": 140},
    ),
    "linear_batch_norm_relu_of_few": (
        "torch.relu(torch.nn.functional.batch_norm("
        "torch.nn.functional.linear(x, weight, bias), None, None, training=True))",
        _LINEAR,
        {"M": 256, "N": 4, "K": 96},
    ),
    "conv_batch_norm_relu": (
        f"torch.relu(torch.nn.functional.batch_norm({_CALL}, None, None, training=True))",
        _CONVOLUTION,
        {**_FEW, "B": 4, "O": 3},
    ),
    "conv_minus_mean_relu": (f"torch.relu({_CALL} - {_CALL}.mean())", _CONVOLUTION, _FEW),
    "attention": ("torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v", _HEADS, {"H": 2, "M": 48, "D": 16}),
    "softcapped_scores": (
        "torch.softmax(30.0 * torch.tanh(q @ k.transpose(-1, -2) / 240.0), -1)",
        {"q": ("H", "M", "D"), "k": ("H", "M", "D")},
        {"H": 2, "M": 48, "D": 64},
    ),
    "product_gelu_sigmoid": (
        "torch.sigmoid(torch.nn.functional.gelu(a @ b)) + 1.0", _PRODUCT, {"M": 3, "N": 62, "K": 216},
    ),
    "product_gelu_mean": ("torch.nn.functional.gelu(a @ b).mean(1)", _PRODUCT, _SIZES),
    "two_layers": (
        "torch.nn.functional.gelu(a @ b) @ c", {**_PRODUCT, "c": ("N", "L")}, {**_SIZES, "L": 24},
    ),
    "gram": ("x.T @ x / x.shape[0]", _ROWS, {"M": 300, "N": 40}),
}  # fmt: skip
"""Formulas with shapes of their inputs and sizes."""
HALVES = ("layer_norm", "softmax", "matmul", "attention", "frobenius_norm", "batch_norm", "conv_of_few_filters",
          "linear_gelu", "instance_norm", "standardised")  # fmt: skip
"""Operators that are also tried with bfloat16 inputs and results, and float32 between."""


COARSE = ("matmul", "product_gelu_sigmoid", "product_gelu_mean", "two_layers", "attention", "conv",
          "conv_instance_norm", "conv_hardswish_relu", "conv_minus_mean_relu", "linear_batch_norm_gelu_relu",
          "conv_of_one_filter", "matmul_of_few_columns")  # fmt: skip
"""Operators that are also tried where TF32 is allowed."""


def _operator(name: str, dtype: str, *, tf32: bool = False) -> Operator:
    formula, inputs, sizes = _FORMULAS[name]
    wide = "".join(f"    {item} = {item}.float()\n" for item in inputs) if dtype != "float32" else ""
    used = {size for shape in inputs.values() for size in shape}
    full = f"{name}_tf32" if tf32 else name if dtype == "float32" else f"{name}_{dtype}"
    return Operator(
        name=full,
        entry=full,
        reference=(
            f"import torch\n\n\ndef {full}({', '.join(inputs)}):\n{wide}    return ({formula}).to(torch.{dtype})\n"
        ),
        inputs=tuple({"name": item, "shape": shape, "dtype": dtype} for item, shape in inputs.items()),
        outputs=({"name": "y", "dtype": dtype},),
        precision={"allow_tf32": tf32},
        shapes=({"dims": {name: size for name, size in sizes.items() if name in used}},),
    )


ORDINARY: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        *(_operator(name, "float32") for name in _FORMULAS),
        *(_operator(name, "bfloat16") for name in HALVES),
        *(_operator(name, "float32", tf32=True) for name in COARSE),
    )
}
"""The operators by name."""
