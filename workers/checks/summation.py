"""Sums as loops and atomics add them: one term after another, with each partial sum rounded.

Terms of few distinct values are rounded alike, so the errors of their sum do not average out. The mean of 8192 losses,
many of them log 2, lost 15 times what sums of random terms lose, and a correct kernel was refused on an H100. A softmax
over equal logits that adds one after another lost twice what its row was allowed.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from workers.float8 import readable
from workers.protocol import Graph
from workers.protocol.graph import InputRef, Node, NodeRef
from workers.reference import evaluate, is_product

MOST_ELEMENTS = 2**24
"""Maximum terms of sums that are repeated: more take a CPU seconds, and kernels add them in parts."""
MAX_TERMS = 2**16
"""Maximum number of terms that a kernel adds one after another: of longer sums, programs and threads take parts."""

Terms = Callable[[torch.Tensor, list[int]], torch.Tensor]
"""Terms that an operation adds up, from its operand and axes."""
Applied = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""An operation's result from its exact result, and from what its sum became relative to the exact sum."""


def _squared(values: torch.Tensor, axes: list[int]) -> torch.Tensor:
    return values.square()


def _apart(values: torch.Tensor, axes: list[int]) -> torch.Tensor:
    return (values - values.mean(axes, keepdim=True)).square()


def _powers(values: torch.Tensor, axes: list[int]) -> torch.Tensor:
    return torch.exp(values - values.amax(axes, keepdim=True))


_SUMS = frozenset(["sum", "mean"])
_OTHERS: dict[str, tuple[Terms, Applied]] = {
    "var": (_apart, torch.mul),
    "std": (_apart, lambda result, ratio: result * ratio.sqrt()),
    "linalg_vector_norm": (_squared, lambda result, ratio: result * ratio.sqrt()),
    "logsumexp": (_powers, lambda result, ratio: result + ratio.log()),
    "_softmax": (_powers, torch.div),
    "_safe_softmax": (_powers, torch.div),
    "_log_softmax": (_powers, lambda result, ratio: result - ratio.log()),
    "native_layer_norm": (_apart, lambda result, ratio: result / ratio.sqrt()),
    "_fused_rms_norm": (_squared, lambda result, ratio: result / ratio.sqrt()),
}
"""Operations with a sum of terms of one sign inside. The result of a layer norm is that without an offset."""


def sequential_results(graph: Graph, inputs: Sequence[torch.Tensor], dtype: torch.dtype) -> list[list[torch.Tensor]]:
    """Evaluate the reference in float64 with sums added one after another.

    Args:
        graph: The reference.
        inputs: Its inputs.
        dtype: Dtype that partial sums are rounded to.

    Returns:
        Results with means divided at the end, and with their terms divided; empty if there are no such sums.
    """
    if not any(map(_adds, graph.nodes)):
        return []
    found = []
    for divides_terms in (False, True):
        hook = _InTurn(graph, inputs, dtype, divides_terms=divides_terms)
        found.append(list(evaluate(graph, inputs, double=True, rounding=hook)))
    return found


class _InTurn:
    """Hook of an evaluation: keeps what is added up, and gives results of sums with the rounding of each step."""

    def __init__(
        self, graph: Graph, inputs: Sequence[torch.Tensor], dtype: torch.dtype, *, divides_terms: bool
    ) -> None:
        self._graph = graph
        self._inputs = inputs
        self._dtype = dtype
        self._divides_terms = divides_terms
        sums = filter(_adds, graph.nodes)
        self._taken = {value.node for node in sums for value in node.uses if isinstance(value, NodeRef)}
        self._kept: dict[int, list[torch.Tensor]] = {}
        self._turns = Counter[int]()

    def __call__(self, index: int, values: torch.Tensor) -> torch.Tensor:
        """Return a node's values; a node with several results, as a norm with its statistics, comes once for each."""
        node = self._graph.nodes[index]
        self._turns[index] += 1
        if _adds(node) and self._turns[index] == 1:
            values = self._added_up(node, values)
        if index in self._taken:
            self._kept.setdefault(index, []).append(values)
        return values

    def _added_up(self, node: Node, values: torch.Tensor) -> torch.Tensor:
        given = self._operand(node)
        if given is None or not 0 < given.numel() <= MOST_ELEMENTS:
            return values
        if node.name == "linalg_vector_norm" and node.args[1:2] not in ((), (2,)):
            return values
        axes = _axes(node, given.dim())
        count = math.prod(given.shape[axis] for axis in axes)
        if count > MAX_TERMS:
            return values
        if node.name in _SUMS:
            size = count if node.name == "mean" else 1
            total = self._total(given / size if self._divides_terms else given, axes)
            return (total if self._divides_terms else total / size).reshape(values.shape)
        terms_of, applied = _OTHERS[node.name]
        terms = terms_of(given, axes)
        exact = terms.sum(axes, keepdim=True)
        ratio = torch.where(exact > 0, self._total(terms, axes) / exact, 1.0).nan_to_num(1.0, 1.0, 1.0)
        return applied(values, ratio.reshape(values.shape) if ratio.numel() == values.numel() else ratio)

    def _operand(self, node: Node) -> torch.Tensor | None:
        """Return what a node adds up, float64; None for integers, which are not rounded."""
        source = node.uses[0] if node.uses else None
        if isinstance(source, InputRef):
            tensor = self._inputs[source.input]
            return readable(tensor).double() if tensor.is_floating_point() else None
        parts = self._kept.get(source.node, []) if isinstance(source, NodeRef) else []
        number = source.result or 0 if isinstance(source, NodeRef) else 0
        return parts[number] if number < len(parts) else None

    def _total(self, terms: torch.Tensor, axes: list[int]) -> torch.Tensor:
        """Add terms along axes one after another, float64; the axes stay, with size 1."""
        kept = [1 if axis in axes else size for axis, size in enumerate(terms.shape)]
        rows = terms.movedim(axes, list(range(len(axes)))).reshape(-1, math.prod(kept))
        return _added(rows, self._dtype).to(terms).reshape(kept)


def adds_up(graph: Graph) -> bool:
    """Return True if results of a graph are sums, or have sums inside: of matrix products, too."""
    return any(_adds(node) or is_product(node) for node in graph.nodes)


def _adds(node: Node) -> bool:
    """Return True if a node adds up, or has a sum inside."""
    return node.name in _SUMS or node.name in _OTHERS


def _axes(node: Node, dims: int) -> list[int]:
    """Return the axes that a node adds along; all where it names none."""
    if node.name in ("native_layer_norm", "_fused_rms_norm"):
        last = node.args[1]
        return list(range(dims - (len(last) if isinstance(last, list | tuple) else 1), dims))
    place = 2 if node.name == "linalg_vector_norm" else 1
    named = node.args[place] if len(node.args) > place else None
    listed = named if isinstance(named, list | tuple) else [named]
    return [axis % dims for axis in listed if isinstance(axis, int)] or list(range(dims))


def _added(terms: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Add rows one after another. On the CPU: a card would start a kernel per row."""
    rows = terms.to("cpu", dtype)
    total = torch.zeros(rows.shape[1], dtype=dtype)
    for row in rows:
        total += row
    return total
