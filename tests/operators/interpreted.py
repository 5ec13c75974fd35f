"""Runs seed kernels on Triton's interpreter beside their references, in a process of its own; writes errors as JSON.

    python interpreted.py SPEC...

For each operator: the worst error over its small boundary shapes, as a share of the largest expected value, or "masks"
where NaN and infinities are not where the reference has them. Inputs are float32 whatever the spec says, because
the plain interpreter is wrong on bfloat16.
"""

import importlib.util
import json
import math
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import torch

from service.operators.catalogue import load_operator
from service.operators.shapes import INTERPRETED_ELEMENTS, INTERPRETED_ROWS, boundary_shapes
from workers.inputs import draw


def cases(operator):
    """Ordinary values at every small boundary shape; NaN and infinities where it is cheap."""
    shapes = [shape for shape in boundary_shapes(operator) if is_quick(operator, shape)]
    return [(shape, "normal") for shape in shapes] + [(shape, "planted") for shape in (shapes[0], shapes[-1])]


def is_quick(operator, shape):
    """Whether Triton's own interpreter, which is slower than ours, gets through a shape."""
    sizes = [operator.input_shape(item, shape.dims) for item in operator.given]
    return (
        sum(map(math.prod, sizes)) <= INTERPRETED_ELEMENTS
        and max(math.prod(size[:-1]) for size in sizes) <= INTERPRETED_ROWS
    )


def load(source, entry, folder):
    """The entry function; from a file, since Triton reads a kernel's text from its file."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "source.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("source", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, entry)


def compare(have, want, least):
    """The error of a result, as a share of its largest value or of `least`; None where NaN and infinities differ."""
    assert (have.shape, have.dtype) == (want.shape, want.dtype)
    odd = ~want.isfinite()
    if not torch.equal(~have.isfinite(), odd) or not torch.equal(have[odd].nan_to_num(), want[odd].nan_to_num()):
        return None
    have, want = have[~odd], want[~odd]
    return ((have - want).abs().max() / want.abs().max().clamp_min(least)).item() if want.numel() else 0.0


def with_gradients(operator, function, backward):
    """The function's results, and behind them the gradients: of another function, or by autograd if there is none."""

    def call(*given):
        count = len(operator.inputs)
        inputs, (upstream, scalars) = list(given[:count]), divided(given[count:], len(operator.upstream))
        if backward is None:
            leaves = [inputs[index].requires_grad_() for index in operator.differentiated]
            outputs = several(function(*inputs, *scalars))
            gradients = torch.autograd.grad(outputs, leaves, upstream)
        else:
            outputs = several(function(*inputs, *scalars))
            gradients = several(backward(*upstream, *inputs, *outputs, *scalars))
        return tuple(value.detach() for value in (*outputs, *gradients))

    return call


def divided(values, count):
    return values[:count], values[count:]


def several(results):
    return results if isinstance(results, tuple) else (results,)


def entry_of(operator, source, folder, *, seed):
    """What a source makes of a plan's inputs."""
    function = load(source, operator.entry, folder)
    if not operator.backward:
        return function
    return with_gradients(operator, function, load(source, operator.backward_entry, folder) if seed else None)


def worst_error(operator, folder):
    reference = entry_of(operator, operator.reference, folder, seed=False)
    errors = []
    for source in (each for each in operator.seeds if "gluon" not in each):  # which Triton's interpreter does not know
        seed = entry_of(operator, source, folder, seed=True)
        for shape, name in cases(operator):
            tensors = [
                tensor.float() if tensor.is_floating_point() else tensor for tensor in draw(operator, shape, name, 7)
            ]
            scalars = operator.scalar_values(shape.dims)
            got, expected = seed(*tensors, *scalars), reference(*(each.clone() for each in tensors), *scalars)
            got, expected = (value if isinstance(value, tuple) else (value,) for value in (got, expected))
            least = 1.0 if operator.backward else 1e-6  # Gradients of single elements are all cancellation.
            errors += [compare(have, want, least) for have, want in zip(got, expected, strict=True)]
    return "masks" if None in errors else max(errors)


with tempfile.TemporaryDirectory() as folder:
    operators = [load_operator(spec) for spec in sys.argv[1:]]
    json.dump({operator.name: worst_error(operator, folder) for operator in operators}, sys.stdout)
