"""Gradients of a reference, by autograd while it is traced: the graph goes on behind the outputs. Inside the jail."""

from collections.abc import Callable, Sequence

import torch

from workers.protocol import Operator


class NotDifferentiable(Exception):
    """The reference has not the gradients that its operator declares; the message says which, and what to change."""


def differentiate(
    function: Callable[..., tuple[object, ...]], operator: Operator, given: Sequence[torch.Tensor]
) -> tuple[object, ...]:
    """Outputs of a reference, then the gradients of its float inputs.

    Args:
        function: The reference, of the operator's inputs alone.
        operator: Says which inputs have gradients.
        given: The operator's inputs, then the gradients of its float outputs.

    Raises:
        NotDifferentiable: If an output's gradient has not the output's shape, or an input's does not exist.
    """
    # Builds of torch for cards start autograd's threads where there is no card too, and all at once they say how many
    # threads torch uses: after a fork the first to say it makes torch's pool anew, and a second meanwhile finds none.
    torch.set_num_threads(1)
    wanted = operator.differentiated
    count = len(operator.inputs)
    with torch.enable_grad():
        inputs = [
            tensor.detach().requires_grad_() if index in wanted else tensor
            for index, tensor in enumerate(given[:count])
        ]
        results = function(*inputs)
        outputs = [item for item in results if isinstance(item, torch.Tensor) and item.is_floating_point()]
        upstream = given[count:]
        _match(operator, outputs, upstream)
        pairs = [pair for pair in zip(outputs, upstream, strict=True) if pair[0].requires_grad]
        found: Sequence[torch.Tensor | None] = torch.autograd.grad(
            [output for output, _ in pairs],
            [inputs[index] for index in wanted],
            [gradient for _, gradient in pairs],
            allow_unused=True,
        )
    for index, gradient in zip(wanted, found, strict=True):
        if gradient is None:
            name = operator.inputs[index].name
            raise NotDifferentiable(f"no output of the reference depends on '{name}'; say gradient = false for it")
    return (*(item.detach() if isinstance(item, torch.Tensor) else item for item in results), *found)


def _match(operator: Operator, outputs: Sequence[torch.Tensor], upstream: Sequence[torch.Tensor]) -> None:
    shapes = [tuple(output.shape) for output in outputs]
    declared = [tuple(gradient.shape) for gradient in upstream]
    if shapes != declared:
        names = ", ".join(item.name for item in operator.upstream)
        raise NotDifferentiable(f"the reference's float outputs are of shapes {shapes}, but {names} of {declared}")
    if not any(output.requires_grad for output in outputs):
        raise NotDifferentiable("no float output of the reference depends on an input that has a gradient")
