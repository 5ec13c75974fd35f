"""Orders of loops: a tensor that is normalised is read once, also over an axis in the middle."""

from tests.workers.inductor_seeds.test_lowering import lowered
from tests.workers.tracer.jobs import operator


def test_a_norm_over_an_axis_in_the_middle_reads_its_tensor_once():
    inputs = [{"name": "x", "shape": ["M", 64, 32, 16], "dtype": "float32"}]
    reference = "def scale(x):\n    return x / (x * x).mean(1, keepdim=True).sqrt()\n"
    of = operator(reference=reference, inputs=inputs, shapes=[{"dims": {"M": 8}}], ranges={"M": [8, 8]})
    (kernel,) = lowered(of)["kernels"]
    assert kernel[1].count("tl.load(") == 1
