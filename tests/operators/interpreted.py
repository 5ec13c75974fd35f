"""Runs seed kernels on Triton's interpreter beside their references, in a process of its own; writes errors as JSON.

    python interpreted.py SPEC...

For each operator: the worst error over its boundary shapes, as a share of the largest expected value, or "masks" where
NaN and infinities are not where the reference has them. Inputs are float32 whatever the spec says, because the plain
interpreter is wrong on bfloat16.
"""

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import torch

from service.operators.catalogue import load_operator
from service.operators.shapes import boundary_shapes
from workers.inputs import draw


def cases(operator):
    """Ordinary values at every boundary shape; NaN and infinities where it is cheap."""
    shapes = boundary_shapes(operator)
    return [(shape, "normal") for shape in shapes] + [(shape, "planted") for shape in (shapes[0], shapes[-1])]


def load(source, entry, folder):
    """The entry function; from a file, since Triton reads a kernel's text from its file."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "source.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("source", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, entry)


def compare(have, want):
    """The error of a result; None where NaN and infinities differ."""
    assert (have.shape, have.dtype) == (want.shape, want.dtype)
    odd = ~want.isfinite()
    if not torch.equal(~have.isfinite(), odd) or not torch.equal(have[odd].nan_to_num(), want[odd].nan_to_num()):
        return None
    have, want = have[~odd], want[~odd]
    return ((have - want).abs().max() / want.abs().max().clamp_min(1e-6)).item() if want.numel() else 0.0


def worst_error(operator, folder):
    reference = load(operator.reference, operator.entry, folder)
    errors = []
    for source in operator.seeds:
        seed = load(source, operator.entry, folder)
        for shape, name in cases(operator):
            tensors = [
                tensor.float() if tensor.is_floating_point() else tensor for tensor in draw(operator, shape, name, 7)
            ]
            scalars = [scalar.value for scalar in operator.scalars]
            got, expected = seed(*tensors, *scalars), reference(*tensors, *scalars)
            got, expected = (value if isinstance(value, tuple) else (value,) for value in (got, expected))
            errors += [compare(have, want) for have, want in zip(got, expected, strict=True)]
    return "masks" if None in errors else max(errors)


with tempfile.TemporaryDirectory() as folder:
    operators = [load_operator(spec) for spec in sys.argv[1:]]
    json.dump({operator.name: worst_error(operator, folder) for operator in operators}, sys.stdout)
