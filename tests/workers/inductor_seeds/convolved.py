"""Script that runs convolutions in Triton's interpreter: it reads cases and prints their distances from torch.

A case is {"axes": [[taps, stride, padding, dilation], ...], "transposed", "groups", "images", "channels", "filters",
"extents", "more"}: channels and filters of a group, extents of the images, and what a transposed one adds behind.
"""

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import ast

import torch
import triton

from workers.inductor_seeds.convolution import Convolution, ConvolutionAxis

HEADER = "import triton\nimport triton.language as tl\n\n\n"


def distance(case, folder):
    """Largest difference from torch's result in float64, with inputs around 1."""
    axes = tuple(ConvolutionAxis(*axis) for axis in case["axes"])
    groups, transposed = case["groups"], case["transposed"]
    of = Convolution(axes, transposed, groups, case["filters"], "ieee")
    channels, filters = case["channels"] * groups, case["filters"] * groups
    first, second = (channels, case["filters"]) if transposed else (filters, case["channels"])
    torch.manual_seed(0)
    x = torch.randn(case["images"], channels, *case["extents"])
    weight = torch.randn(first, second, *(axis.taps for axis in axes))
    how = [[getattr(axis, name) for axis in axes] for name in ("stride", "padding", "dilation")]
    expected = torch.ops.aten.convolution(
        x.double(), weight.double(), None, *how, transposed, case.get("more", [0] * len(axes)), groups
    )
    y = torch.full(expected.shape, float("nan"))
    sizes = [[str(size) for size in tensor.shape] for tensor in (x, weight, y)]
    kernel = of.kernel()
    path = Path(folder) / f"kernel_{len(list(Path(folder).iterdir()))}.py"
    path.write_text(HEADER + ast.unparse(kernel))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    grid = eval(of.grid(*sizes), {"triton": triton})
    blocks = {name: value for name, value in of.options.items() if name.startswith("BLOCK")}
    getattr(module, kernel.name)[grid](x, weight, y, *map(int, of.arguments(*sizes)), **blocks)
    return float((y - expected).abs().nan_to_num(torch.inf).max())


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        json.dump([distance(case, folder) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
