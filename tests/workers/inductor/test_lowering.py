"""Lowering: what Inductor writes for a reference, seen in the jail that it takes over."""

import json
from functools import partial

from tests.workers.tracer.jobs import in_jail, operator
from workers.inductor.lowering import lower
from workers.targets import TARGETS


def lowered(of) -> dict:
    def run(of, _: bytes) -> bytes:
        found = lower(of, TARGETS["sm_90"])
        kernels = [[item.name, item.text, item.grid, dict(item.options)] for item in found.kernels.values()]
        return json.dumps({"host": found.host, "kernels": kernels}).encode()

    return json.loads(in_jail(partial(run, of)))


def test_sizes_stay_symbols_even_those_that_are_one():
    found = lowered(operator(shapes=[{"dims": {"M": 1, "N": 128}}]))
    ((name, text, grid, options),) = found["kernels"]
    assert f"{name}.run(" in found["host"]
    assert text.startswith("@triton.jit")
    assert grid == "Grid1D"
    assert {"XBLOCK", "num_warps", "num_stages"} <= options.keys()
    assert "xnumel" in text


def test_a_reduction_has_blocks_along_both_axes():
    found = lowered(operator(reference="def scale(x, w):\n    return x.softmax(-1) * w\n"))
    assert {"XBLOCK", "R0_BLOCK"} <= found["kernels"][0][3].keys()
