"""Script that runs convolutions in Triton's interpreter: it reads cases and prints their distances from torch.

A case is {"axes": [[taps, stride, padding, dilation], ...], "transposed", "groups", "images", "channels", "filters",
"extents", "more", "most", "fixed", "precision", "wide"}: channels and filters of a group, extents of the images, what a
transposed one adds behind, the maximum channels and filters that the kernel is chosen for, true for a fixed number of
channels, the precision of products, and true for indices of 64 bits. It prints a distance and true for copies per case.
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

from workers.inductor_seeds.convolution import Convolution, ConvolutionAxis, ConvolutionSizes

HEADER = "import triton\nimport triton.language as tl\n\n\n"


def distance(case, folder):
    """Return the largest difference from torch's result in float64, and True if the kernel reads copies."""
    more = case.get("more", [0] * len(case["axes"]))
    axes = tuple(ConvolutionAxis(*axis, extra) for axis, extra in zip(case["axes"], more, strict=True))
    groups, transposed = case["groups"], case["transposed"]
    sizes = ConvolutionSizes(
        *case.get("most", (case["channels"], case["filters"])),
        far=case.get("wide", False),
        wide=case.get("wide", False),
    )
    fixed = case["channels"] if case.get("fixed") else None
    of = Convolution(axes, transposed, groups, fixed, case["filters"], sizes, case.get("precision", "ieee"))
    channels, filters = case["channels"] * groups, case["filters"] * groups
    first, second = (channels, case["filters"]) if transposed else (filters, case["channels"])
    torch.manual_seed(0)
    x = torch.randn(case["images"], channels, *case["extents"])
    weight = torch.randn(first, second, *(axis.taps for axis in axes))
    how = [[getattr(axis, name) for axis in axes] for name in ("stride", "padding", "dilation")]
    expected = torch.ops.aten.convolution(x.double(), weight.double(), None, *how, transposed, more, groups)
    y = torch.full(expected.shape, float("nan"))
    sizes = [[str(size) for size in tensor.shape] for tensor in (x, weight, y)]
    given = [x, weight]
    if of.is_packed:
        given = [packed(*copy, of.sizes.channels, folder) for copy in zip(given, of.copies(*sizes[:2]), strict=True)]
    kernel = of.kernel()
    grid = eval(of.grid(*sizes), {"triton": triton})
    blocks = {name: value for name, value in of.options.items() if name.startswith("BLOCK")}
    compiled(ast.unparse(kernel), kernel.name, folder)[grid](*given, y, *map(int, of.arguments(*sizes)), **blocks)
    return float((y - expected).abs().nan_to_num(torch.inf).max()), of.is_packed


def packed(tensor, how, most, folder):
    """Copy a tensor with its channels last."""
    made = torch.full([eval(extent, {"triton": triton}) for extent in how.shape], float("nan"))
    options = how.options(most)
    grid = eval(how.grid(options), {"triton": triton})
    numbers = [eval(code, {"triton": triton}) for code in how.arguments]
    blocks = {name: value for name, value in options.items() if name.startswith("BLOCK")}
    compiled(ast.unparse(how.kernel(rounded=False)), "pack", folder)[grid](tensor, made, *numbers, **blocks)
    return made


def compiled(text, name, folder):
    """Import a kernel."""
    path = Path(folder) / f"kernel_{len(list(Path(folder).iterdir()))}.py"
    path.write_text(HEADER + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        json.dump([distance(case, folder) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
