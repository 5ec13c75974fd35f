"""Gradients of a reference: autograd runs while it is traced and extends the graph. Runs inside the sandbox."""

from collections.abc import Callable, Sequence

import torch

from workers.protocol import Operator


class NotDifferentiable(Exception):
    """The reference lacks a gradient that its operator declares; the message names it and the remedy."""


def differentiate(
    function: Callable[..., tuple[object, ...]], operator: Operator, given: Sequence[torch.Tensor]
) -> tuple[object, ...]:
    """Compute the outputs of a reference, then the gradients of its float inputs.

    Args:
        function: The reference as a function of the operator's inputs only.
        operator: Declares which inputs have gradients.
        given: The operator's inputs, then the gradients of its float outputs.

    Raises:
        NotDifferentiable: If an output's gradient differs in shape from the output, or an input has no gradient.
    """
    # CUDA builds of torch start autograd's threads even without a card, and all set the thread count at once. After a
    # fork the first one recreates torch's thread pool, and a second one meanwhile finds none.
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
            raise NotDifferentiable(f"no output of the reference depends on '{name}'; set gradient = false for it")
    return (*(item.detach() if isinstance(item, torch.Tensor) else item for item in results), *found)


def _match(operator: Operator, outputs: Sequence[torch.Tensor], upstream: Sequence[torch.Tensor]) -> None:
    shapes = [tuple(output.shape) for output in outputs]
    declared = [tuple(gradient.shape) for gradient in upstream]
    if shapes != declared:
        names = ", ".join(item.name for item in operator.upstream)
        raise NotDifferentiable(
            f"the reference's float outputs have shapes {shapes}, but the declared gradients {names} have {declared}"
        )
    if not any(output.requires_grad for output in outputs):
        raise NotDifferentiable("no float output of the reference depends on an input that has a gradient")
