"""liger-kernel's own Triton kernels as candidates: read out of the package where it is installed, none of it kept here.

A candidate is one file that imports torch and triton only, so the jit functions are cut out of the package's modules
and put before a few lines of ours that allocate and launch as the package's operators do. Its licence (BSD 2-clause)
allows that.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "liger_kernel"
IMPORTS = """import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import rsqrt, tanh
"""
"""What the functions that are cut out refer to."""
SETTINGS = """

def settings(n_cols):
    block = triton.next_power_of_2(n_cols)
    warps = 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4
    return {"BLOCK_SIZE": block, "num_warps": warps}
"""
"""The block and the warps that the package takes for a row."""


@dataclass(frozen=True)
class Cut:
    """What is taken from the package for an operator.

    Attributes:
        module: Of `liger_kernel.ops`.
        names: Functions and constants of it.
        entry: The text that allocates and launches.
    """

    module: str
    names: tuple[str, ...]
    entry: str


RMSNORM_NAMES = ("_CASTING_MODE_NONE", "_CASTING_MODE_LLAMA", "_CASTING_MODE_GEMMA", "_rms_norm_forward_kernel")
RMSNORM = """
def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    scales = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    places = (y, n_cols, x, n_cols, weight, 1, scales, 1)
    _rms_norm_forward_kernel[(n_rows,)](
        *places, n_cols, 1e-6, 0.0, casting_mode={mode}, elementwise_affine=True, **settings(n_cols)
    )
    return y
"""

CUTS = {
    "rmsnorm": Cut("rms_norm", RMSNORM_NAMES, RMSNORM.format(mode=1)),
    "rmsnorm/llama": Cut("rms_norm", RMSNORM_NAMES, RMSNORM.format(mode=0)),
    "swiglu": Cut(
        "swiglu",
        ("silu", "_swiglu_forward_kernel"),
        """
def swiglu(gate, up):
    n_rows, n_cols = gate.shape
    y = torch.empty_like(gate)
    _swiglu_forward_kernel[(n_rows,)](gate, up, y, n_cols, 1.0, n_cols=n_cols, **settings(n_cols))
    return y
""",
    ),
    "layernorm": Cut(
        "layer_norm",
        ("_layer_norm_forward_kernel",),
        """
def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    means = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    scales = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    places = (y, n_cols, x, n_cols, weight, 1, bias, 1, means, 1, scales, 1)
    _layer_norm_forward_kernel[(n_rows,)](*places, n_cols, 1e-5, **settings(n_cols))
    return y
""",
    ),
    "cross_entropy": Cut(
        "cross_entropy",
        ("LOG2_E", "liger_cross_entropy_kernel"),
        """
@triton.jit
def mean_kernel(losses_ptr, mean_ptr, n_rows, block: tl.constexpr):
    partial = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, n_rows, block):
        rows = start + tl.arange(0, block)
        partial += tl.load(losses_ptr + rows, mask=rows < n_rows, other=0.0)
    tl.store(mean_ptr, tl.sum(partial, axis=0))


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    losses = torch.empty((n_rows,), dtype=torch.float32, device=logits.device)
    mean = torch.empty((), dtype=torch.float32, device=logits.device)
    liger_cross_entropy_kernel[(n_rows,)](
        X_ptr=logits, X_stride=n_cols, Y_ptr=target, Y_stride=1, weight_ptr=None, loss_ptr=losses, z_loss_ptr=None,
        loss_stride=1, token_accuracy_ptr=None, token_accuracy_stride=0, predicted_tokens_ptr=None,
        predicted_tokens_stride=0, n_cols=n_cols, n_non_ignore=n_rows, sum_non_ignore_weight=n_rows, weight_sum=0.0,
        ignore_index=-100, lse_square_scale=0.0, label_smoothing=0.0, reduction="mean", softcap=None,
        RETURN_Z_LOSS=False, RETURN_TOKEN_ACCURACY=False, RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=min(32768, triton.next_power_of_2(n_cols)), HAS_WEIGHT=False, HAS_SOFTCAPPING=False,
        HAS_GRADIENTS=False, num_warps=32,
    )
    mean_kernel[(1,)](losses, mean, n_rows, block=1024, num_warps=4)
    return mean
""",
    ),
}
"""By operator, and style where there are several. Two of them round a factor to bfloat16 before they multiply, which
contracts leave room for. Its softmax takes exponentials of bfloat16, which Triton does not have."""


def liger_kernels() -> Iterator[tuple[str, str]]:
    """Name and source of each; none where the package is not installed, or has other names in it."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return
    folder = Path(spec.submodule_search_locations[0]) / "ops"
    for name, cut in CUTS.items():
        text = _taken(folder / f"{cut.module}.py", cut.names)
        if text:
            yield name, f"{IMPORTS}\n\n{text}\n{SETTINGS}\n{cut.entry}"


def _taken(path: Path, names: tuple[str, ...]) -> str:
    """The statements that define names, in their order; empty if one is missing."""
    if not path.exists():
        return ""
    source = path.read_text()
    found = {name: text for node in ast.parse(source).body for name, text in _defined(node, source)}
    return "\n\n\n".join(found[name] for name in names) if set(names) <= set(found) else ""


def _defined(node: ast.stmt, source: str) -> Iterator[tuple[str, str]]:
    text = ast.get_source_segment(source, node) or ""
    if isinstance(node, ast.FunctionDef):
        marks = [ast.get_source_segment(source, mark) for mark in node.decorator_list]
        yield node.name, "".join(f"@{mark}\n" for mark in marks) + text
    elif isinstance(node, ast.AnnAssign | ast.Assign):
        for target in [node.target] if isinstance(node, ast.AnnAssign) else node.targets:
            if isinstance(target, ast.Name):
                yield target.id, text
