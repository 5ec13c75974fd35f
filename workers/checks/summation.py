"""Sums as loops and atomics add them: one term after another, with each partial sum rounded.

Terms of few distinct values are rounded alike, so the errors of their sum do not average out. The mean of 8192 losses,
many of them log 2, lost 15 times what sums of random terms lose, and a correct kernel was refused on an H100. A softmax
over equal logits that adds one after another lost twice what its row was allowed.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from workers.protocol import Graph
from workers.protocol.graph import InputRef, Node, NodeRef
from workers.reference import Change, Result, evaluate, is_product, mean_and_variance, normalised, origin

MOST_ELEMENTS = 2**24
"""Maximum terms of sums that are repeated: more take a CPU seconds, and kernels add them in parts."""
MAX_TERMS = 2**16
"""Maximum number of terms that a kernel adds one after another: of longer sums, programs and threads take parts."""
SUM_ROUNDOFFS = 0.5
"""Roundoffs of the accumulator, times the root of the number of summands, that any order of summation may lose."""
MIXER = 0x9E3779B97F4A7C15 - 2**64
"""Odd factor that spreads each of 64 bits over the higher ones: 2^64 over the golden ratio, as int64."""

Terms = Callable[[torch.Tensor, list[int]], torch.Tensor]
"""Terms that an operation adds up, from its operand and axes."""
Sum = Callable[[torch.Tensor], torch.Tensor]
"""A sum over rows, (terms, sums), to (sums)."""
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
    "_fused_rms_norm": (_squared, lambda result, ratio: result / ratio.sqrt()),
}
"""Operations with a sum of terms of one sign inside."""
_CENTRING = frozenset(["native_layer_norm", "native_group_norm", "native_batch_norm"])
"""Norms that subtract a mean."""


def added_otherwise(graph: Graph, inputs: Sequence[torch.Tensor], dtype: torch.dtype) -> list[list[torch.Tensor]]:
    """Evaluate the reference in float64 with sums added in other ways than PyTorch's, mostly one after another.

    Args:
        graph: The reference.
        inputs: Its inputs.
        dtype: Dtype that partial sums are rounded to.

    Returns:
        Results with means divided at the end, with their terms divided, and with what some order may lose of sums that
        are subtracted: where nothing else is left, one order may lose nothing by luck. Empty if there are no sums.
    """
    sums = [node for node in graph.nodes if _adds(node)]
    in_turn = partial(_in_turn, dtype)
    ways = (
        _Summation(sums, in_turn),
        _Summation(sums, in_turn, divides_terms=True),
        _Summation(_subtracted(graph), partial(_lossy, dtype)),
    )
    return [list(evaluate(graph, inputs, double=True, changes=way.changes)) for way in ways if way.changes]


def _subtracted(graph: Graph) -> list[Node]:
    """Return the sums that are subtracted from something, and norms, which subtract a mean."""
    used = (value for node in graph.nodes if node.name in ("sub", "rsub") for value in node.uses)
    named = {origin(graph, value) for value in used}
    nodes = enumerate(graph.nodes)
    return [node for at, node in nodes if _takes_statistics(node) or (at in named and node.name in _SUMS)]


class _Summation:
    """One way to add up, as changes of an evaluation.

    Args:
        nodes: Those whose sums are added up so.
        add: Adds up terms.
        divides_terms: True if the terms of means are divided, and not their sums.
    """

    def __init__(self, nodes: Sequence[Node], add: Sum, *, divides_terms: bool = False) -> None:
        self.changes: dict[str, Change] = dict.fromkeys((node.name for node in nodes), self._change)
        self._nodes = nodes
        self._add = add
        self._divides_terms = divides_terms

    def _change(self, node: Node, used: Sequence[torch.Tensor], result: Result) -> Result:
        """Return the result of one of the nodes with its sums added up so; of others, and of integers, as it is."""
        is_meant = any(node is each for each in self._nodes) and used[0].is_floating_point()
        if not is_meant or result is None or not 0 < used[0].numel() <= MOST_ELEMENTS:
            return result
        if isinstance(result, torch.Tensor):
            return self._reduced(node, used[0], result)
        if node.name not in _CENTRING:
            return (self._reduced(node, used[0], result[0]), *result[1:])
        given = iter(used)
        args = [next(given) if isinstance(value, InputRef | NodeRef) else value for value in node.args]
        return (normalised(node.name, args, self._statistics), *result[1:])

    def _reduced(self, node: Node, given: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """Return the result of a reduction; of too many terms as it is."""
        if node.name == "linalg_vector_norm" and node.args[1:2] not in ((), (2,)):
            return result
        axes = _axes(node, given.dim())
        count = math.prod(given.shape[axis] for axis in axes)
        if count > MAX_TERMS:
            return result
        if node.name in _SUMS:
            size = count if node.name == "mean" else 1
            total = self._total(given / size if self._divides_terms else given, axes)
            return (total if self._divides_terms else total / size).reshape(result.shape)
        terms_of, applied = _OTHERS[node.name]
        terms = terms_of(given, axes)
        exact = terms.sum(axes, keepdim=True)
        ratio = torch.where(exact > 0, self._total(terms, axes) / exact, 1.0).nan_to_num(1.0, 1.0, 1.0)
        return applied(result, ratio.reshape(result.shape) if ratio.numel() == result.numel() else ratio)

    def _statistics(self, rows: torch.Tensor, axes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and variance; of too many terms as they are."""
        count = math.prod(rows.shape[axis] for axis in axes)
        if count > MAX_TERMS:
            return mean_and_variance(rows, axes)
        return self._total(rows, axes) / count, self._total(_apart(rows, axes), axes) / count

    def _total(self, terms: torch.Tensor, axes: list[int]) -> torch.Tensor:
        """Add terms along axes, float64; the axes stay, with size 1."""
        kept = [1 if axis in axes else size for axis, size in enumerate(terms.shape)]
        rows = terms.movedim(axes, list(range(len(axes)))).reshape(-1, math.prod(kept))
        return self._add(rows).to(terms).reshape(kept)


def adds_up(graph: Graph) -> bool:
    """Return True if results of a graph are sums, or have sums inside: of matrix products, too."""
    return any(_adds(node) or is_product(node) for node in graph.nodes)


def _adds(node: Node) -> bool:
    """Return True if a node adds up tensors, or has a sum inside."""
    return node.name in _SUMS or node.name in _OTHERS or _takes_statistics(node)


def _takes_statistics(node: Node) -> bool:
    """Return True if a node subtracts a mean that it takes itself: a batch norm may be given one."""
    return node.name in _CENTRING and (node.name != "native_batch_norm" or node.args[5] is True)


def _axes(node: Node, dims: int) -> list[int]:
    """Return the axes that a node adds along; all where it names none."""
    if node.name == "_fused_rms_norm":
        last = node.args[1]
        return list(range(dims - (len(last) if isinstance(last, list | tuple) else 1), dims))
    place = 2 if node.name == "linalg_vector_norm" else 1
    named = node.args[place] if len(node.args) > place else None
    listed = named if isinstance(named, list | tuple) else [named]
    return [axis % dims for axis in listed if isinstance(axis, int)] or list(range(dims))


def _in_turn(dtype: torch.dtype, terms: torch.Tensor) -> torch.Tensor:
    """Add rows one after another. On the CPU: a card would start a kernel per row."""
    rows = terms.to("cpu", dtype)
    total = torch.zeros(rows.shape[1], dtype=dtype)
    for row in rows:
        total += row
    return total


def _lossy(dtype: torch.dtype, terms: torch.Tensor) -> torch.Tensor:
    """Return sums of rows off by at least half of what an order may lose, up or down by the bits of the sum.

    A kernel adds equal terms alike: where rows of an operator are equal, but for a rounding, the errors of their sums
    do not average out.
    """
    total = terms.sum(0)
    bits = total.to(dtype).double().view(torch.int64)
    for _ in range(2):
        bits = (bits ^ bits >> 32 & 0xFFFFFFFF) * MIXER
    moves = (bits >> 32).to(torch.float64).div_(2.0**31)
    lost = SUM_ROUNDOFFS * len(terms) ** 0.5 * torch.finfo(dtype).eps / 2
    return moves.add_(moves.sgn()).mul_(lost / 2).add_(1).mul_(total)
