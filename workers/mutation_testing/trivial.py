"""Trivial answers: results of kernels that do not do the work."""

from collections.abc import Iterator

import torch

from workers.inputs import draw
from workers.mutation_testing.cases import MutationCase, Tensors
from workers.reference import evaluate

UNINITIALISED = 0xFF
"""Byte that fills memory before a kernel runs: NaN as a float, -1 as an integer."""

DEPENDENT = ("copy of", "first row")
"""Prefixes of answers made from the inputs or results of one case; an operator may compute exactly that."""


def trivial_answers(case: MutationCase) -> Iterator[tuple[str, Tensors]]:
    """Yield wrong answers to a case, by name; each replaces one output, and the others are right."""
    right = case.reference.native
    other = evaluate(case.graph, draw(case.operator, case.graph.shape, case.draw, b"another seed"), double=False)
    for number, output in enumerate(case.operator.results):
        of = f" as '{output.name}'" if len(right) > 1 else ""
        for name, answer in _instead_of(case, number):
            yield name + of, (*right[:number], answer, *right[number + 1 :])
        yield "right answer to other inputs" + of, (*right[:number], other[number], *right[number + 1 :])


def _instead_of(case: MutationCase, number: int) -> Iterator[tuple[str, torch.Tensor]]:
    right, expected = case.reference.native[number], case.reference.expected[number]
    yield "zeros", torch.zeros_like(right)
    yield "ones", torch.ones_like(right)
    yield "uninitialised memory", _uninitialised(right)
    for item, tensor in zip(case.operator.given, case.inputs, strict=True):
        yield f"copy of '{item.name}'", _copied(tensor, right)
    if right.dim() and right.shape[0] > 1:
        yield "first row for all", right[:1].expand_as(right).contiguous()
    values = expected.double()[expected.isfinite()]
    if values.numel() > 1 and bool(values.std() > 0):
        yield "mean everywhere", values.mean().expand(right.shape).to(right.dtype)
        yield "noise of equal mean and spread", _noise(right, values)


def _copied(tensor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Cast and broadcast an input; if that is impossible, take its elements in order, repeated as needed."""
    lined_up = zip(reversed(tensor.shape), reversed(right.shape), strict=False)
    if tensor.dim() <= right.dim() and all(size in (1, wanted) for size, wanted in lined_up):
        return tensor.to(right.dtype).expand_as(right).contiguous()
    times = -(-right.numel() // max(1, tensor.numel()))
    return tensor.flatten().repeat(times)[: right.numel()].reshape(right.shape).to(right.dtype)


def _uninitialised(right: torch.Tensor) -> torch.Tensor:
    memory = torch.full((max(1, right.numel() * right.element_size()),), UNINITIALISED, dtype=torch.uint8)
    if right.dtype == torch.bool:
        return memory[: right.numel()].bool().reshape(right.shape)
    return memory[: right.numel() * right.element_size()].view(right.dtype).reshape(right.shape)


def _noise(right: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(right.shape, generator=generator, dtype=torch.float64)
    return (values.mean() + values.std() * noise).to(right.dtype)
