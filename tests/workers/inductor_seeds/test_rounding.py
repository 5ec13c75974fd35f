"""16-bit values with several readers are rounded for all of them; others stay as they are computed."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.workers.inductor_seeds.test_lowering import lowered
from tests.workers.tracer.jobs import operator
from workers.inductor_seeds.rounding import _rounded, round_what_is_read_twice

CAST = ".to(tl.bfloat16)"
INPUTS = [{"name": name, "shape": shape, "dtype": "bfloat16"} for name, shape in (("x", ["M", "N"]), ("w", ["N"]))]


def readers_of_rounded(function, *tensors) -> dict[str, list[str]]:
    """Return the operations that read a rounded value, by the operation that computes it."""
    traced = make_fx(function, tracing_mode="fake")(*tensors)
    round_what_is_read_twice(traced)
    found = [node for node in traced.graph.nodes if node.target is _rounded]
    return {node.args[0].name: [reader.name for reader in node.users] for node in found}


X = torch.zeros(4, 4, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("function", "readers"),
    [
        (lambda x: (x + x).exp() * (x + 1), {}),
        (lambda x: [(y := x + x), y.exp()], {"add": ["exp"]}),
        (lambda x: (y := (x + x).view(16)) * y.exp(), {"view": ["exp", "mul"]}),
        (lambda x: (y := x.view(16)) * y.exp(), {}),
        (lambda x: (y := x.float() + 1) * y.exp(), {}),
        (lambda x: (z := (y := x + x).view(16)) * z.exp() + y.exp().view(16), {"add": ["view", "exp_1"]}),
    ],
    ids=["one reader each", "a result", "a view", "an input", "float32", "a view of a rounded one"],
)
def test_what_is_computed_in_16_bits_and_read_twice_is_rounded_once(function, readers):
    assert readers_of_rounded(function, X) == readers


def test_what_is_written_to_stays_the_tensor_that_is_written_to():
    def added(x, y):
        z = x + y
        y.copy_(z)
        return z.exp()

    def changed(x):
        y = x + x
        z = y.exp()
        y.mul_(2)
        return z, y

    assert readers_of_rounded(added, X, X.clone()) == {"add": ["exp"]}
    assert readers_of_rounded(changed, X) == {}


def test_a_norm_subtracts_the_mean_of_what_it_has():
    body = "    y = x + w\n    return torch.nn.functional.layer_norm(y, (x.shape[1],)), y\n"
    reference = f"import torch\n\n\ndef scale(x, w):\n{body}"
    outputs = [{"name": name, "dtype": "bfloat16"} for name in ("y", "z")]
    shapes = [{"dims": {"M": 64, "N": 1536}}]
    of = operator(reference=reference, inputs=INPUTS, outputs=outputs, shapes=shapes, ranges={"N": [1, 1536]})
    text = "".join(text for _, text, *_ in lowered(of)["kernels"])
    assert text.count(CAST) == 3, "in the mean, in the variance and in the result"
    single = operator(reference="def scale(x, w):\n    return (x + w).exp() * w\n", inputs=INPUTS, outputs=outputs[:1])
    assert CAST not in "".join(text for _, text, *_ in lowered(single)["kernels"])
