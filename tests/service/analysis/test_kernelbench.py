"""Kernels in KernelBench's form, and its measure over many problems."""

import pytest
import torch

from service.analysis.kernelbench import FastShare, ProblemResult, fast_shares, model_new, speedups_of, wilson
from service.errors import InvalidInput
from service.operators.kernelbench import operator_of_problem
from tests.service import records
from tests.workers.kernelbench.problems import HEADER
from workers.protocol import Input, Output, Ratio, Scalar
from workers.protocol.kernelbench import ProblemInspection

PROBLEM = (
    HEADER
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 4))

    def forward(self, shift, x):
        return self.layers(x) + shift

width = 8

def get_inputs():
    return [1.5, torch.rand(2, width)]

def get_init_inputs():
    return []
"""
)
FOUND = ProblemInspection(
    inputs=(
        Input(name="x", shape=("D0", 8), dtype="float32"),
        Input(name="layers_0_weight", shape=(4, 8), dtype="float32"),
        Input(name="layers_0_bias", shape=(4,), dtype="float32"),
    ),
    scalars=(Scalar(name="shift", dtype="float", value=1.5),),
    outputs=(Output(name="y", dtype="float32"),),
    arguments=("shift", "x"),
    parameters={"layers_0_weight": "layers.0.weight", "layers_0_bias": "layers.0.bias"},
    target="Model",
    shapes=({"D0": 2},),
)
OPERATOR = operator_of_problem("level1_7_gemm", PROBLEM, FOUND)
KERNEL = "import torch\n\n\ndef level1_7_gemm(x, weight, bias, shift):\n    return x @ weight.t() + bias + shift\n"


@pytest.mark.parametrize("beside", ["", ", None", ", shift if shift is None else None"])
def test_a_kernel_becomes_a_module_with_the_weights_of_the_problem(beside: str) -> None:
    text = model_new(OPERATOR, KERNEL.replace(" + shift\n", f" + shift{beside}\n"), "found by a search\nthat ended")
    assert text.startswith("# found by a search\n# that ended\n")
    namespace: dict = {"__name__": "solution"}
    exec(text, namespace)
    results = []
    for name in ("Model", "ModelNew"):
        torch.manual_seed(3)
        module = namespace[name](*namespace["get_init_inputs"]())
        results.append(module(*namespace["get_inputs"]()))
    assert torch.allclose(*results)


def test_a_candidate_that_is_such_a_module_stays_as_it_is() -> None:
    solution = PROBLEM.replace("class Model(", "class ModelNew(")
    assert model_new(OPERATOR, solution, "found") == f"# found\n{solution}"


def test_what_was_not_made_of_a_problem_has_no_such_form() -> None:
    with pytest.raises(InvalidInput, match="was not imported from KernelBench"):
        model_new(records.OPERATOR, KERNEL, "")
    with pytest.raises(InvalidInput, match="both define width"):
        model_new(OPERATOR, KERNEL + "\nwidth = 3\n", "")


def test_a_path_that_is_no_path_is_nobodys() -> None:
    forged = OPERATOR.model_copy(update={"reference": OPERATOR.reference.replace("layers.0.bias", "bias); print(")})
    with pytest.raises(InvalidInput, match="was not imported from KernelBench"):
        model_new(forged, KERNEL, "")


def ratio(mid: float) -> Ratio:
    return Ratio(low=mid * 0.9, mid=mid, high=mid * 1.1)


def test_the_share_counts_judged_problems_only_and_says_which_are_certain() -> None:
    results = [
        ProblemResult("a", judged=True, speedups={"eager": ratio(2.1), "compile": ratio(1.05)}),
        ProblemResult("b", judged=True, speedups={"eager": ratio(1.3), "compile": ratio(0.8)}),
        ProblemResult("c", judged=True),
        ProblemResult("d", judged=False, reason="it draws random numbers"),
    ]
    shares = {(share.baseline, share.p): share for share in fast_shares(results)}
    assert shares["eager", 1.0] == FastShare("eager", 1.0, 2, 2, 3, *wilson(2, 3))
    assert (shares["eager", 2.0].count, shares["eager", 2.0].certain) == (1, 0)
    assert (shares["compile", 1.0].count, shares["compile", 1.0].certain) == (1, 0)
    assert shares["compile", 1.2].count == 0


def test_wilsons_interval() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)  # as tables have it
    assert wilson(0, 20)[0] == 0.0 and wilson(20, 20)[1] == pytest.approx(1.0)


def test_speedups_are_told_for_each_baseline() -> None:
    report = records.report({"M=256,N=512": 10.0})
    shape = report.shapes[0].model_copy(update={"baselines_us": {"eager": 30.0, "compile": 20.0, "max_autotune": 10.0}})
    found = speedups_of(report.model_copy(update={"shapes": (shape,)}), ratio(1.5))
    assert found["eager"].mid == pytest.approx(4.5) and found["compile"].low == pytest.approx(2.7)
    assert speedups_of(report.model_copy(update={"shapes": ()}), ratio(1.5)) == {}
