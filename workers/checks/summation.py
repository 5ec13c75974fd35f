"""Sums as loops and atomics add them: one term after another, with each partial sum rounded.

Terms of few distinct values are rounded alike, so the errors of their sum do not average out. The mean of 8192 losses,
many of them log 2, lost 15 times what sums of random terms lose. A correct kernel was refused on an H100.
"""

from collections.abc import Sequence
from functools import partial

import torch

from workers.protocol import Graph
from workers.protocol.graph import Node, NodeRef
from workers.reference import evaluate

FEW_RESULTS = 32
"""Maximum number of results of a sum that is repeated: more of them share a scale and average out."""
MAX_TERMS = 2**16
"""Maximum number of terms that a kernel adds one after another: of longer sums, programs and threads take parts."""
_SUMS = {"aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim"}


def sequential_results(graph: Graph, inputs: Sequence[torch.Tensor], dtype: torch.dtype) -> list[list[torch.Tensor]]:
    """Evaluate the reference in float64 with sums to few results added one after another.

    Args:
        graph: The reference.
        inputs: Its inputs.
        dtype: Dtype that partial sums are rounded to.

    Returns:
        Results with means divided at the end, and with their terms divided; empty if there are no such sums.
    """
    sums = {
        index: (node, node.uses[0])
        for index, node in enumerate(graph.nodes)
        if node.op in _SUMS and isinstance(node.uses[0], NodeRef)
    }
    if not sums:
        return []
    found = []
    for divides_terms in (False, True):
        hook = partial(_replaced, sums, dtype, divides_terms, dict[int, list[torch.Tensor]]())
        found.append(list(evaluate(graph, inputs, double=True, rounding=hook)))
    return found


def _replaced(
    sums: dict[int, tuple[Node, NodeRef]],
    dtype: torch.dtype,
    divides_terms: bool,
    terms: dict[int, list[torch.Tensor]],
    index: int,
    values: torch.Tensor,
) -> torch.Tensor:
    """Return a node's values, those of a sum with the rounding of each step; keep the terms of later sums.

    A node with several results, as a norm that also gives its statistics, comes once for each.
    """
    if any(index == source.node for _, source in sums.values()):
        terms.setdefault(index, []).append(values)
    if index not in sums or values.numel() > FEW_RESULTS:
        return values
    node, source = sums[index]
    number = source.result or 0
    parts = terms.get(source.node, [])
    given = parts[number] if number < len(parts) else None  # Integers are not rounded, and have no terms here.
    if given is None or given.numel() > MAX_TERMS * values.numel() or not given.isfinite().all():
        return values
    dims = node.args[1] if len(node.args) > 1 else None
    named = [axis for axis in dims if isinstance(axis, int)] if isinstance(dims, list | tuple) else []
    axes = named or list(range(given.dim()))
    moved = given.movedim(axes, list(range(len(axes)))).reshape(-1, values.numel())
    count = len(moved) if "mean" in node.op else 1
    added = _added(moved / count if divides_terms else moved, dtype)
    return (added if divides_terms else added / count).to(values).view_as(values)


def _added(terms: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Add rows one after another. On the CPU: a card would start a kernel per row."""
    rows = terms.to("cpu", dtype)
    total = torch.zeros(rows.shape[1], dtype=dtype)
    for row in rows:
        total += row
    return total
