"""Script that runs recurrent layers in Triton's interpreter: it reads cases and prints their distances from torch.

A case is {"layer", "rows", "settings"}: the name of a layer of `torch.nn`, and its settings. Its decomposition runs
eagerly, and our kernel computes its chains.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import ast
import importlib.util

import torch
import triton

from workers.inductor_seeds import recurrence
from workers.tracer.recurrent import NAMESPACE, WholeLayers

HEADER = """import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


"""
OPTIONS = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 1}


def compute(folder, gates, h, c, weight, bias, weight_inner, bias_inner, kind, chained):
    """Compute the states of chains with our kernel, as the host's lines say."""
    of = recurrence.Recurrence(kind, chained, "ieee", True, OPTIONS)
    path = Path(folder) / f"kernel_{len(list(Path(folder).iterdir()))}.py"
    path.write_text(HEADER + ast.unparse(of.kernel()).replace("libdevice.tanh", "tanh"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    states = torch.full((h.shape[0], gates.shape[1] + (kind == "lstm"), *h.shape[1:]), float("nan"))
    tensors = dict(zip(recurrence.TENSORS, (gates, h, c, weight, bias, weight_inner, bias_inner, states), strict=True))
    lines = of.launches("step", list(tensors), [str(size) for size in gates.shape], [str(size) for size in h.shape])
    exec("\n".join(lines), {**tensors, "triton": triton, "step": module.step})
    return states


def distance(case):
    """Return the largest difference of any result from torch's in float64."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, case["layer"])(12, 20, **case["settings"])
    rows, positions = case["rows"], 5
    x = torch.randn((rows, positions, 12) if layer.batch_first else (positions, rows, 12))
    first = torch.randn(layer.num_layers * (2 if layer.bidirectional else 1), rows, 20)
    states = (first, first.flip(0)) if case["layer"] == "LSTM" else first
    with WholeLayers():
        found, last = layer(x, states)
    doubled = tuple(each.double() for each in states) if isinstance(states, tuple) else states.double()
    right, expected = layer.double()(x.double(), doubled)
    pairs = [(found, right), *zip(last, expected, strict=True)]
    return max(float((one - other).abs().nan_to_num(torch.inf).max()) for one, other in pairs)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        torch.library.impl("kernelreef::recurrence", "CPU", lambda *given: compute(folder, *given))
        for operation, decomposed in recurrence.DECOMPOSITIONS.items():
            torch.library.impl(f"{NAMESPACE}::{operation._opname}", "CPU", decomposed)
        json.dump([distance(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
