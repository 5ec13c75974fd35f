"""What the reference expects of one case: values, and how much an honest kernel may differ from them.

Evaluated only after the candidate has run, in a process that runs no candidate code.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import torch

from workers.commands import TIMED
from workers.float8 import readable
from workers.protocol import Graph, Operator
from workers.reference import evaluate, filters, is_product, origin

NUDGE_ROUNDOFFS = 32.0
"""Most roundoffs by which inputs are nudged to find the sensitivity: what a handful of operations may lose where matrix
units keep two bits fewer of a sum than float32 has. The scores of attention over `heavy` inputs carry that into an
exponential; with 8, a correct kernel was refused on an H200."""
ROW_ROUNDOFFS = 1.0
"""Roundoffs, times the root of its length, by which every row is nudged as a whole: what a sum over it may lose in some
order. Nudges of single elements average out in a sum, while its own rounding errors add up. A convolution sums over all
axes of a filter but one: where its inputs are far from zero and what comes after subtracts a mean, PyTorch's own
float32 came to nine tenths of the bounds by the last axis alone, and a correct kernel was refused on an H200."""
INTERMEDIATE_ROUNDOFFS = 8.0
"""Most roundoffs by which intermediate values of gradients are moved: one call of the reference, such as the gradient
of a softmax, is several operations of a kernel with a sum among them. Where one value outweighs its row, what is left
of its gradient is the rounding of that sum; with 1, correct kernels were refused."""
HANDED_ROUNDOFFS = 1.0
"""Roundoffs of its own dtype by which a result is moved that the gradient may be computed from: it is handed to it
rounded. Where it cancels, as in a softmax whose upstream gradients are far from zero, PyTorch's own gradient misses by
four roundoffs of a row, and correct kernels were refused."""
TINY = 1e-30
"""What exact zeros among the inputs of gradients are moved to, above or below: at a kink, such as that of an absolute
value, the slope of either side is right, and so is whatever lies between."""
SINGULAR = "structured"
"""The draw in which whole rows cancel, so that intermediate values rounded to the inputs' dtype, as the probabilities
of attention are, may change results beyond their scale. There, inputs are nudged by a roundoff of their own dtype. Not
so where time counts: outliers tell timed content from what is checked, and int8 products would do for it. What few
elements of it may miss is said by `coarse_sensitivity`."""
NUDGES = 4
"""Independent nudges: the movements of two large terms can cancel by luck, and among 100,000 rows those of two nudges
do."""
FURTHER_NUDGES = 28
"""More of them where errors are just beyond what the first allow, or those of few values are: of one value in ten
thousand, all four may leave the factor that decides where it is. Correct kernels with two such values among 1,920 were
refused on an H200, and so was a convolution whose clamp had left single values in rows, for four of 537 million."""
STAND_INS = (1.0, -0.5, 64.0, -64.0)
"""Finite values put in place of planted ones; results that agree under all of them do not depend on them. Maxima,
minima, clamps and pools may take no notice of values among those that are drawn, so two outweigh all others on either
side: of a billion normals the largest is 6, and what has a distribution or bounds is never planted in. Not by more, as
the product of 64 and one of those still has an exponential in float64: a reference may multiply that by zero."""

Tensors = tuple[torch.Tensor, ...]


class Expectation:
    """The reference for one draw of inputs. Every property is evaluated once, when it is first asked for."""

    def __init__(self, operator: Operator, graph: Graph, inputs: Sequence[torch.Tensor], draw: str) -> None:
        """Remember what to evaluate; `draw` is the name of the draw that the inputs are from."""
        self._operator = operator
        self._draw = draw
        self._graph = graph
        self._inputs = inputs

    @cached_property
    def expected(self) -> Tensors:
        """The reference in float64 (float casts done in float64, the last one to the output's dtype left out)."""
        return evaluate(self._graph, self._inputs, double=True)

    @cached_property
    def native(self) -> Tensors:
        """The reference in the operator's own dtypes."""
        return evaluate(self._graph, self._inputs, double=False)

    @cached_property
    def largest_product(self) -> float:
        """The largest finite magnitude among results of matrix products; 0 where there are none."""
        found = [0.0]

        def note(node: int, values: torch.Tensor) -> torch.Tensor:
            if is_product(self._graph.nodes[node]) and values.numel():
                found.append(float(values.nan_to_num(0.0, 0.0, 0.0).abs().amax()))
            return values

        if any(map(is_product, self._graph.nodes)):
            evaluate(self._graph, self._inputs, double=True, rounding=note)
        return max(found)

    @cached_property
    def sensitivity(self) -> Tensors:
        """How far `expected` moves when float inputs move by a few roundoffs of the accumulator; zero for integers.

        Gradients are also moved by rounding every intermediate, and the results that they are handed: they are
        differences of large terms, which nudged inputs move together.
        """
        moved = self._movements(range(NUDGES), coarse=self._draw == SINGULAR)
        return tuple(map(_further, moved, self._from_what_is_handed(), self.expected))

    @cached_property
    def full_sensitivity(self) -> Tensors:
        """The same from many more nudges: dear, and for the few cases that turn on it."""
        further = self._movements(range(NUDGES, NUDGES + FURTHER_NUDGES), coarse=self._draw == SINGULAR)
        return tuple(map(torch.maximum, self.sensitivity, further))

    @cached_property
    def coarse_sensitivity(self) -> Tensors:
        """How far `expected` moves on timed content when float inputs move by a roundoff of their own dtype.

        Zero on other draws. Among millions of timed values there are a few that outliers make of large terms which
        cancel; factors that are rounded to the inputs' dtype, as the probabilities of attention are, show there alone.
        """
        if self._draw != TIMED:
            return tuple(value.new_zeros((), dtype=torch.float64).expand_as(value) for value in self.expected)
        return self._movements(range(NUDGES), coarse=True)

    @cached_property
    def undecided(self) -> Tensors:
        """Where `native` is NaN or infinite though the value does not depend on what was planted.

        So it is when a reference multiplies by zero what a kernel never reads. Any answer is right there. The
        stand-ins' results are dear: there are none where nothing can be undecided, and never more than two at once.
        """
        floats = [readable(tensor) for tensor in self._inputs if tensor.is_floating_point()]
        if all(bool(tensor.isfinite().all()) for tensor in floats):
            return tuple(torch.zeros_like(tensor, dtype=torch.bool) for tensor in self.native)
        still = tuple(~readable(tensor).isfinite() for tensor in self.native)
        first: Tensors = ()
        for value in STAND_INS:
            if not any(bool(places.any()) for places in still):
                break
            result = evaluate(self._graph, self._stand_in(value), double=True)
            first = first or result
            still = tuple(map(_and_equal, still, first, result))
            del result  # Not to be held beside the next one.
        return still

    def _movements(self, seeds: Iterable[int], *, coarse: bool) -> Tensors:
        """Largest distance from `expected` under the nudges of some seeds."""
        largest = tuple(torch.zeros_like(value, dtype=torch.float64) for value in self.expected)
        for seed in seeds:
            for moved in self._moved(seed, coarse):
                largest = tuple(map(_further, largest, moved, self.expected))
                del moved  # Not to be held beside the next ones.
        return largest

    def _moved(self, seed: int, coarse: bool) -> Iterator[Tensors]:
        yield evaluate(self._graph, self._nudge(seed, coarse), double=True)
        if self._operator.backward:
            step = INTERMEDIATE_ROUNDOFFS * self._roundoff
            steps = dict.fromkeys(range(len(self._graph.nodes)), step)
            rounding = partial(_rounded_at_random, steps, self._generator(seed))
            yield evaluate(self._graph, self._inputs, double=True, rounding=rounding)
            rounding = partial(_rounded_at_random, self._handed, self._generator(seed))
            moved = evaluate(self._graph, self._inputs, double=True, rounding=rounding)
            yield self.expected[: self._results] + moved[self._results :]

    def _from_what_is_handed(self) -> Tensors:
        """What is expected of a kernel whose gradients come from results as they are: `expected`, if there are none.

        Where inputs are of few values, so are results, and equal ones are rounded alike: what their roundings do to a
        sum does not average out, as that of random ones does.
        """
        if not self._operator.backward:
            return self.expected
        moved = evaluate(self._graph, self._inputs, double=True, rounding=partial(_rounded_to, self._handed_dtypes))
        return self.expected[: self._results] + moved[self._results :]

    @property
    def _results(self) -> int:
        """How many results there are besides gradients."""
        return len(self._operator.outputs)

    @cached_property
    def _handed(self) -> dict[int, float]:
        """By which steps results are moved that gradients are handed, by the nodes that compute them."""
        return {
            node: HANDED_ROUNDOFFS * float(torch.finfo(dtype).eps / 2) for node, dtype in self._handed_dtypes.items()
        }

    @cached_property
    def _handed_dtypes(self) -> dict[int, torch.dtype]:
        """Dtypes of the float results that gradients are handed, by the nodes that compute them."""
        found = zip(self._graph.outputs[: self._results], self._graph.output_dtypes, strict=False)
        dtypes = {origin(self._graph, value): getattr(torch, dtype) for value, dtype in found}
        return {node: dtype for node, dtype in dtypes.items() if node is not None and dtype.is_floating_point}

    def _nudge(self, seed: int, coarse: bool) -> list[torch.Tensor]:
        """Every float input in float64, each element and each row moved up or down by at most a relative step.

        In place throughout: inputs of 5 GB take 18 GB in float64, of which there must not be five at once.
        """
        roundoff, generator = self._roundoff, self._generator(seed)
        nudged = []
        for tensor in self._inputs:
            if tensor.is_floating_point():
                step = NUDGE_ROUNDOFFS * roundoff
                if coarse:
                    step = max(step, torch.finfo(tensor.dtype).eps / 2)
                factors = _moves(tensor.shape, generator).mul_(step)
                if tensor.dim():
                    row_step = ROW_ROUNDOFFS * roundoff * max(tensor.shape[-1], self._filtered) ** 0.5
                    factors += _moves((*tensor.shape[:-1], 1), generator).mul_(row_step)
                moved = factors.add_(1).mul_(readable(tensor))
                tensor = self._off_zero(moved, tensor, generator) if self._operator.backward else moved
            nudged.append(tensor)
        return nudged

    def _off_zero(self, moved: torch.Tensor, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        zeros = tensor == 0
        return moved.add_(_moves(tensor.shape, generator).mul_(TINY).mul_(zeros)) if zeros.any() else moved

    @cached_property
    def _filtered(self) -> int:
        """Most terms that a convolution sums; 0 where there is none."""
        found = ((self._inputs[number], axis) for number, axis in filters(self._graph))
        return max((tensor.numel() // max(1, tensor.shape[axis]) for tensor, axis in found), default=0)

    @property
    def _roundoff(self) -> float:
        return float(torch.finfo(getattr(torch, self._operator.precision.accumulate)).eps / 2)

    def _generator(self, seed: int) -> torch.Generator:
        return torch.Generator(self._inputs[0].device).manual_seed(seed)

    def _stand_in(self, value: float) -> list[torch.Tensor]:
        return [t.double().nan_to_num(value, value, value) if t.is_floating_point() else t for t in self._inputs]


def _rounded_at_random(
    steps: Mapping[int, float], generator: torch.Generator, node: int, values: torch.Tensor
) -> torch.Tensor:
    """Moved up or down, by at least half of the node's step: no value that decides may stay where it is by luck."""
    step = steps.get(node, 0.0)
    if not step:
        return values
    moves = _moves(values.shape, generator)
    moves += moves.sgn()
    return moves.mul_(step / 2).add_(1).mul_(values)


def _rounded_to(dtypes: Mapping[int, torch.dtype], node: int, values: torch.Tensor) -> torch.Tensor:
    """As who is handed a node's values gets them; float64."""
    return values.to(dtypes[node]).double() if node in dtypes else values


def _moves(size: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Uniform between -1 and 1, float64."""
    moves = torch.rand(tuple(size), generator=generator, dtype=torch.float64, device=generator.device)
    return moves.mul_(2).sub_(1)


def _and_equal(places: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Those of the places where two results are the same number."""
    return places & (one == other)


def _further(distance: torch.Tensor, moved: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The larger of a distance, which is overwritten, and that of a moved value; what is no float does not move."""
    return torch.maximum(distance, (moved - value).abs_(), out=distance) if value.is_floating_point() else distance
