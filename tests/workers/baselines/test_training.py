"""The two passes of operators with gradients: the first knows nothing of the second, and both compute the graph."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from tests.workers.baselines.catalogue import OPERATORS, graph_of, inputs, small, small_graph
from workers.baselines.agreement import check
from workers.baselines.module import spread, to_module
from workers.baselines.training import both_ways, forward_of
from workers.protocol import Input, Operator, Output
from workers.protocol.operator import BenchmarkShape

CPU = torch.device("cpu")
WITH_GRADIENTS = sorted(name for name, operator in OPERATORS.items() if operator.backward)


def eager(name):
    return spread(to_module(small_graph(name), len(OPERATORS[name].given), CPU))


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_the_forward_pass_takes_the_inputs_alone(name):
    operator, tensors = OPERATORS[name], inputs(OPERATORS[name])
    results = spread(forward_of(operator, small_graph(name), CPU))(tensors[: len(operator.inputs)])
    expected = eager(name)(tensors)[: len(operator.outputs)]
    assert all(torch.equal(mine, its) for mine, its in zip(results, expected, strict=True))


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_both_passes_compute_what_the_graph_does(name):
    operator, tensors = OPERATORS[name], inputs(OPERATORS[name])
    compiled = torch.compile(
        forward_of(operator, small_graph(name), CPU), backend="aot_eager", fullgraph=True, dynamic=False
    )
    got = both_ways(compiled, operator)(tensors)
    expected = eager(name)(tensors)
    check(operator, got, expected, 64, lambda: expected)
    assert not any(result.requires_grad for result in got)


def test_what_a_reference_detaches_itself_stays_detached():
    operator = Operator(
        name="held",
        entry="held",
        inputs=(Input(name="x", shape=("M",), dtype="float32"),),
        outputs=(Output(name="y", shape=("M",), dtype="float32"),),
        reference="def held(x):\n    return x * x.detach()\n",
        shapes=(BenchmarkShape(dims={"M": 5}, weight=1.0),),
        backward=True,
    )
    graph = graph_of(operator, small(operator))
    x, upstream = torch.arange(5.0), torch.ones(5)
    y, gradient = both_ways(forward_of(operator, graph, CPU), operator)((x, upstream))
    assert torch.equal(y, x * x)
    assert torch.equal(gradient, x)


def test_the_backward_pass_is_compiled_with_the_forward_pass():
    operator, order = OPERATORS["gelu_backward"], []

    def noting(what):
        def compiler(module, example_inputs):
            order.append(what)
            return make_boxed_func(module.forward)

        return compiler

    backend = aot_autograd(fw_compiler=noting("forward compiled"), bw_compiler=noting("backward compiled"))
    compiled = torch.compile(forward_of(operator, small_graph("gelu_backward"), CPU), backend=backend, dynamic=False)

    def forward(*tensors):
        results = compiled(*tensors)
        order.append("forward ran")
        return results

    both_ways(forward, operator)(inputs(operator))
    assert order[-1] == "forward ran"
    assert sorted(order[:-1]) == ["backward compiled", "forward compiled"]


def test_a_graph_that_names_a_forbidden_operation_is_refused():
    graph = small_graph("gelu_backward")
    forged = graph.model_copy(
        update={"nodes": (graph.nodes[0].model_copy(update={"op": "aten.random.default"}), *graph.nodes[1:])}
    )
    with pytest.raises(ValueError, match=r"may not contain aten\.random"):
        forward_of(OPERATORS["gelu_backward"], forged, CPU)
