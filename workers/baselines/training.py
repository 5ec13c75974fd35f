"""Gradients as in training: a forward pass without the upstream gradients, then autograd's backward pass.

The graph of an operator with `backward` holds both passes. Compiled as a whole it would read every input once for both.
No training loop can do that: other layers and the loss lie in between.
"""

from collections.abc import Callable, Sequence

import torch
from torch import fx
from torch._functorch import config

from workers.baselines.module import Function, Tensors, to_module
from workers.protocol import Graph, Operator

_DETACH = torch.ops.aten.detach.default


def forward_of(operator: Operator, graph: Graph, device: torch.device) -> fx.GraphModule:
    """Return the forward pass alone, for use with autograd; it takes the inputs without the upstream gradients.

    Args:
        operator: The contract, with `backward`.
        graph: Its reference for one shape.
        device: Device on which factories of the graph create tensors.

    Raises:
        ValueError: If the graph contains an operation that a reference may not use.
    """
    module = to_module(graph, len(operator.given), device)
    nodes = module.graph
    placeholders = nodes.find_nodes(op="placeholder")
    results = nodes.output_node().args[0]
    assert isinstance(results, Sequence)
    # The trace detached inputs and results of the reference; values that it detaches itself stay detached.
    forward = tuple(_attached(result) for result in results[: len(operator.outputs)])
    nodes.output_node().args = (forward,)
    detached = nodes.find_nodes(op="call_function", target=_DETACH)
    for entrance in [node for node in detached if node.args[0] in placeholders]:
        entrance.replace_all_uses_with(entrance.args[0])
    nodes.eliminate_dead_code()
    for placeholder in placeholders[len(operator.inputs) :]:
        nodes.erase_node(placeholder)
    module.recompile()
    return module


def both_ways(forward: Callable[..., Sequence[torch.Tensor]], operator: Operator) -> Function:
    """Return a function of inputs and upstream gradients, with the forward pass's results and autograd's gradients.

    Args:
        forward: Takes one parameter per input of the operator.
        operator: The contract, with `backward`.
    """
    count = len(operator.inputs)

    def function(given: Tensors) -> tuple[torch.Tensor, ...]:
        leaves = [
            tensor.detach().requires_grad_(index in operator.differentiated)
            for index, tensor in enumerate(given[:count])
        ]
        # Autograd runs backward passes in its own threads, where no time limit ends a compilation.
        with torch.enable_grad(), config.patch(force_non_lazy_backward_lowering=True):
            results = forward(*leaves)
        floats = [result for result in results if result.is_floating_point()]
        pairs = [pair for pair in zip(floats, given[count:], strict=True) if pair[0].requires_grad]
        gradients = torch.autograd.grad(
            [result for result, _ in pairs],
            [leaves[index] for index in operator.differentiated],
            [upstream for _, upstream in pairs],
        )
        return *(result.detach() for result in results), *gradients

    return function


def _attached(result: fx.node.Argument) -> fx.node.Argument:
    return result.args[0] if isinstance(result, fx.Node) and result.target is _DETACH else result
