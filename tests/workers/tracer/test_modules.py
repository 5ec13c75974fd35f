"""Candidates that are modules `ModelNew`: made for each shape, with the inputs of the call as their parameters."""

import pytest

from tests.workers.tracer.jobs import HEADER, in_jail, job, operator, shape, traced
from workers.protocol import Operator, Outcome
from workers.protocol.kernelbench import preparation
from workers.tracer.modules import with_entry
from workers.tracer.reply import SymbolicReply
from workers.tracer.symbolic import trace_symbolic

PROBLEM = """import torch

N = 128
einsum = torch.einsum


class Model(torch.nn.Module):
    def __init__(self, size, bias=True):
        super().__init__()
        self.part = torch.nn.Module()
        self.part.w = torch.nn.Parameter(torch.rand(size))

    def forward(self, x):
        return x * self.part.w


def get_inputs():
    return [torch.rand(64, N)]


def get_init_inputs():
    return [N, False]
"""
ENTRY = """
def scale(x, w):
    \"\"\"What the text above computes, with parameters as arguments.\"\"\"
    return _results(torch.func.functional_call(_model, {'part.w': w}, (x,)))[0]
"""
MODULE = (
    HEADER
    + """from torch import nn


class Part(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w = nn.Parameter(torch.empty(size).uniform_())
        nn.init.kaiming_uniform_(torch.empty(size, size))


class ModelNew(nn.Module):
    def __init__(self, size, bias):
        super().__init__()
        self.part, self.dropout, self.bias, self.size = Part(size), nn.Dropout(), bias, size

    def forward(self, x):
        y = self.made(x)
        scale_kernel[(x.shape[0],)](x.cuda(), self.part.w, y, self.size, BLOCK=triton.next_power_of_2(self.size))
        return self.dropout(y)

    def made(self, x):
        return torch.empty_like(x)


N = 3


def get_init_inputs():
    return ["others, which do not count"]
"""
)


def problem(**changes: object) -> Operator:
    """`scale` as the operator of a problem."""
    text = f"{PROBLEM.rstrip()}\n{preparation('problem', 'Model')}\n{ENTRY}"
    return operator(**{"reference": text, "ranges": {"M": [1, 64], "N": [1, 256]}, **changes})


def test_a_module_is_made_for_each_shape_and_called_with_the_inputs_as_its_parameters() -> None:
    reply = traced(MODULE, problem(), shapes=(shape(M=64, N=128), shape(M=3, N=100)))
    assert reply.outcome is Outcome.CORRECT, reply.reason
    for plan, n in zip(reply.variants[0].plans, (128, 100), strict=True):
        (launch,) = plan.launches
        assert [argument.buffer for argument in launch.memory] == [0, 1, 2]
        assert launch.arguments[-1].value == n, "the module's size is the shape's"
        assert len(plan.steps) == 2, "parameters of the module take no memory"


def test_its_symbolic_plans_are_those_of_the_function() -> None:
    shapes = tuple(shape(M=m, N=n) for m, n in ((64, 128), (1, 128), (3, 100)))
    asked = job(MODULE.replace("self.dropout(y)", "y"), problem(), shapes=shapes, symbolic={})
    reply = SymbolicReply.model_validate_json(in_jail(trace_symbolic, asked.model_dump_json().encode()))
    assert (reply.outcome, reply.failure) == (Outcome.CORRECT, "")
    assert all(any(plan.admits(each.dims) for plan in reply.plans) for each in shapes)


def test_settings_are_the_problems_with_sizes_of_the_shape() -> None:
    text = with_entry(MODULE, problem())
    assert "sizes.get('N', 128)" in text and "einsum" not in text and "get_inputs()" not in text
    assert text.startswith(MODULE)


ATTACKS = {
    "keeps its own weights": ("self.part.w, y", "self.own, y", Outcome.PLAN_REJECTED, "not allocated in this call"),
    "returns what it made while it loaded": (
        "torch.empty_like(x)", "self.kept", Outcome.PLAN_REJECTED, "not allocated in this call",
    ),
    "computes with torch": ("self.dropout(y)", "torch.relu(y)", Outcome.FORBIDDEN_OP, "computes with torch (relu)"),
    "launches while it is made": (
        "self.kept =", "scale_kernel[(1,)](self.own, self.own, self.own, 1, BLOCK=1); self.kept =",
        Outcome.UNSUPPORTED_LAUNCH, "while the module loads",
    ),
    "makes a tensor on the card while it is made": (
        "self.kept =", "torch.ones(2, device='cuda'); self.kept =", Outcome.FORBIDDEN_OP, "while the module loads",
    ),
    "has other names": ("self.w = ", "self.weight = ", Outcome.TRACE_CRASHED, "no parameter 'part.w'"),
}  # fmt: skip


def refused(source: str, outcome: Outcome, said: str) -> None:
    """Check that a module is refused for a reason."""
    reply = traced(source, problem())
    assert (reply.outcome, said in reply.reason) == (outcome, True), reply.reason


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_module_may_do_no_more_than_a_function(attack: str) -> None:
    old, new, outcome, said = ATTACKS[attack]
    source = MODULE.replace(
        "size, bias):\n        super().__init__()\n        self.part",
        "size, bias):\n        super().__init__()\n        self.own = nn.Parameter(torch.empty(size))\n"
        "        self.kept = torch.empty(64, size)\n        self.part",
    )
    assert old in source
    refused(source.replace(old, new), outcome, said)


def test_a_module_answers_only_operators_made_from_one() -> None:
    reply = traced(MODULE)
    assert (reply.outcome, "operators made from a module's class" in reply.reason) == (Outcome.SYNTAX_ERROR, True)
    function = MODULE + "\n\ndef scale(x, w):\n    pass\n"
    assert with_entry(function, problem()) == function
    assert with_entry("def broken(:", problem()) == "def broken(:"
