"""The expected results of one case, and the maximum error of an honest kernel.

Evaluated only after the candidate has run, in a process that runs no candidate code.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain

import torch

from workers.checks.choices import Choice, chosen_among
from workers.checks.summation import added_otherwise
from workers.commands import TIMED
from workers.float8 import readable
from workers.protocol import Graph, Operator
from workers.reference import (
    NARROWED,
    RoundedFloats,
    allows_tf32,
    evaluate,
    filters,
    is_product,
    origin,
    shows_factors,
    uncertain_products,
    undefined_casts,
)
from workers.tf32 import round_to_tf32

NUDGE_ROUNDOFFS = 32.0
"""Maximum number of roundoffs by which inputs are nudged to find the sensitivity: the loss of a few operations where
matrix units keep two bits fewer of a sum than float32. The scores of attention over `heavy` inputs carry that loss into
an exponential; with 8, a correct kernel was refused on an H200."""
ROW_ROUNDOFFS = 1.0
"""Roundoffs, times the root of its length, by which each row is nudged as a whole: the loss of a sum over it in some
order. Nudges of single elements average out in a sum, while its own rounding errors add up. A convolution sums over all
axes of a filter but one. With inputs far from zero and a mean subtracted afterwards, PyTorch's own float32 reached nine
tenths of the bounds by the last axis alone. A correct kernel was refused on an H200."""
INTERMEDIATE_ROUNDOFFS = 8.0
"""Maximum number of roundoffs by which intermediate values of gradients are moved. One call of the reference, such as
the gradient of a softmax, is several operations of a kernel with a sum among them. Where one value outweighs its row,
the remainder of its gradient is the rounding of that sum; with 1, correct kernels were refused."""
HANDED_ROUNDOFFS = 1.0
"""Roundoffs of its own dtype by which a result is moved that a gradient may be computed from: the gradient gets it
rounded. It may cancel, as in a softmax with upstream gradients far from zero. PyTorch's own gradient is then off by
four roundoffs of a row, and correct kernels were refused."""
TINY = 1e-30
"""Value, positive or negative, that replaces exact zeros in inputs of gradients. At a kink, such as that of an absolute
value, the slope of either side is right, and so is any value between them."""
SINGULAR = "structured"
"""The draw in which whole rows cancel. Intermediate values rounded to the inputs' dtype, such as the probabilities of
attention, may change its results beyond their scale. So its inputs are nudged by a roundoff of their own dtype. Timed
content is not: outliers tell it from checked content, and int8 products would pass on it. Its few exceptional elements
are covered by `coarse_sensitivity`."""
NUDGES = 4
"""Number of independent nudges. The movements of two large terms can cancel by chance, and do so for two nudges among
100,000 rows."""
FURTHER_NUDGES = 28
"""Number of additional nudges, used where errors are just beyond the first bounds, or where few values are. For one
value in ten thousand, all four may leave the decisive factor unmoved. Correct kernels with two such values among 1,920
were refused on an H200. So was a convolution whose clamp had left single values in rows, because of four of 537
million."""
STAND_INS = (1.0, -0.5, 64.0, -64.0)
"""Finite values in place of planted ones; results that agree under all of them do not depend on them.

Maxima, minima, clamps and pools may ignore values inside the drawn range, so two stand-ins lie far outside on either
side: the largest of a billion normals is 6, and inputs with a distribution or bounds are never planted in. They are not
larger, because the product of 64 and a drawn value still has an exponential in float64, which a reference may multiply
by zero."""

CHOICE_NUDGES = 4.0
"""Factor on the movement of values that are chosen among, as of bounds of mean errors (`tolerance.SENSITIVITY_RMS`)."""
TF32_STEP = 3 * 2.0**-14
"""Largest relative step by which nudges move factors that may be TF32: three eighths of a roundoff of TF32, since
bounds are four times what a result moves. Without it, right convolutions before a sigmoid were refused on heavy inputs,
where few elements have nearly all error. Of 300 heavy draws before a GELU and a sigmoid, products of bfloat16 were
refused on 194 and right ones on none; with a quarter of a roundoff on 216, and one right answer."""

HIDDEN = 4 / 3
"""Factor on that step where a recurrent layer is one operation: its states are factors at every step too, and no nudge
reaches them. Layers of 24 steps with cut states are refused on a third of heavy draws all the same, rounded ones on
none; with 2.5, on a tenth, but half of those in bfloat16 passed on normal draws."""

FAR, FAR_SHARE = 3.0, 1 / 2.8
"""Multiple of `TF32_STEP` by which further nudges move factors that may be TF32, and the share of that movement that
counts. Where results move in proportion, it is that of the others. Behind a clamp and a sigmoid they jump: a sum of few
large terms is above or below zero, and the others moved it too little to show that. Of sixty heavy draws right
convolutions were refused on three. Bounds are four times a movement, so one jump is allowed, and no more."""

Tensors = tuple[torch.Tensor, ...]


class Expectation:
    """The reference for one draw of inputs. Every property is evaluated once, on first use."""

    def __init__(self, operator: Operator, graph: Graph, inputs: Sequence[torch.Tensor], draw: str) -> None:
        """Keep the arguments; `draw` is the name of the inputs' draw."""
        self._operator = operator
        self.draw = draw
        self.graph = graph
        self.inputs = inputs

    @cached_property
    def expected(self) -> Tensors:
        """The reference in float64 (float casts done in float64, the last one to the output's dtype left out)."""
        return evaluate(self.graph, self.inputs, double=True)

    @cached_property
    def native(self) -> Tensors:
        """The reference in the operator's own dtypes, with factors cut to TF32 where the contract allows it."""
        return evaluate(self.graph, self.inputs, double=False, tf32=self._operator.precision.allow_tf32)

    @cached_property
    def rounded(self) -> Tensors:
        """`native` with factors rounded to TF32 instead of cut, where they may be TF32."""
        tf32 = self._operator.precision.allow_tf32
        return evaluate(self.graph, self.inputs, double=False, tf32=tf32, factors=round_to_tf32)

    @cached_property
    def middle(self) -> Tensors:
        """The values between those of exact factors and of factors cut to TF32; `expected` without products."""
        return tuple(map(_between, self.expected, self.native)) if self.multiplies_tf32 else self.expected

    @cached_property
    def multiplies_tf32(self) -> bool:
        """True if products of the reference may have TF32 factors, all of which it shows."""
        return shows_factors(self.graph, self._operator.precision.allow_tf32)

    @cached_property
    def allows_tf32(self) -> bool:
        """True if TF32 may replace float32 in some product."""
        return allows_tf32(self.graph, self._operator.precision.allow_tf32)

    @cached_property
    def largest_product(self) -> float:
        """The largest finite magnitude among results of matrix products; 0 if there are none."""
        return _largest_product(self.graph, self.inputs)

    @cached_property
    def sensitivity(self) -> Tensors:
        """Movement of `expected` when float inputs move by a few roundoffs of the accumulator; zero for integers.

        Factors that may be TF32 move by up to `TF32_STEP` besides, and values among which places are chosen, such as a
        router's scores, by a rounding: equal ones are in any order.

        Gradients are also moved by rounding every intermediate value and the results they are computed from: they are
        differences of large terms, which nudged inputs move together.
        """
        moved = self._movements(range(NUDGES), coarse=self.draw == SINGULAR)
        return tuple(map(_further, moved, self._from_what_is_handed(), self.expected))

    @cached_property
    def full_sensitivity(self) -> Tensors:
        """The same from many more nudges: expensive, for the few cases that depend on it."""
        seeds, coarse = range(NUDGES, NUDGES + FURTHER_NUDGES), self.draw == SINGULAR
        found = tuple(map(torch.maximum, self.sensitivity, self._movements(seeds, coarse=coarse)))
        if not self.allows_tf32:
            return found
        far = self._movements(seeds, coarse=coarse, tf32_step=FAR * TF32_STEP)
        return tuple(torch.maximum(near, moved.mul_(FAR_SHARE)) for near, moved in zip(found, far, strict=True))

    @cached_property
    def coarse_sensitivity(self) -> Tensors:
        """Movement of `expected` on timed content when float inputs move by a roundoff of their own dtype; else zero.

        Among millions of timed values, outliers create a few from large terms that cancel. Factors rounded to the
        inputs' dtype, such as the probabilities of attention, show only there.
        """
        if self.draw != TIMED:
            return tuple(value.new_zeros((), dtype=torch.float64).expand_as(value) for value in self.expected)
        return self._movements(range(NUDGES), coarse=True)

    @cached_property
    def sequential_loss(self) -> Tensors:
        """Movement of `expected` if sums are added one after another; zero without sums."""
        loss = tuple(torch.zeros_like(value, dtype=torch.float64) for value in self.expected)
        for moved in added_otherwise(self.graph, self.inputs, getattr(torch, self._operator.precision.accumulate)):
            loss = tuple(map(_further, loss, moved, self.expected))
        return loss

    @cached_property
    def undecided(self) -> Tensors:
        """Places where NaN and infinities say nothing, since none is planted on which the value depends.

        A product along an axis may overflow where it is made in parts. Or `native` is NaN or infinite by itself: this
        happens when a reference multiplies a value by zero that a kernel never reads. Any answer is right there.
        Results with stand-ins are expensive: none are made if nothing can be undecided, and never more than two are
        held.
        """
        floats = [readable(tensor) for tensor in self.inputs if tensor.is_floating_point()]
        if all(bool(tensor.isfinite().all()) for tensor in floats):
            found = uncertain_products(self.graph, self.inputs)
            return tuple(places.expand(result.shape) for places, result in zip(found, self.native, strict=True))
        still = tuple(~readable(tensor).isfinite() for tensor in self.native)
        first: Tensors = ()
        for value in STAND_INS:
            if not any(bool(places.any()) for places in still):
                break
            result = evaluate(self.graph, self._stand_in(value), double=True)
            first = first or result
            still = tuple(map(_and_equal, still, first, result))
            del result  # Free its memory before the next one.
        return still

    def _movements(self, seeds: Iterable[int], *, coarse: bool, tf32_step: float = TF32_STEP) -> Tensors:
        """Return the largest distance from `expected` under the nudges of some seeds."""
        largest = tuple(torch.zeros_like(value, dtype=torch.float64) for value in self.expected)
        for seed in seeds:
            for moved in self._moved(seed, coarse, tf32_step):
                largest = tuple(map(_further, largest, moved, self.expected))
                del moved  # Free its memory before the next ones.
        return largest

    def _moved(self, seed: int, coarse: bool, tf32_step: float) -> Iterator[Tensors]:
        tf32, step = self._operator.precision.allow_tf32, tf32_step * (1 if self.multiplies_tf32 else HIDDEN)
        factors = partial(_moved_factor, step, self._generator(seed))
        yield evaluate(self.graph, self._nudge(seed, coarse), double=True, tf32=tf32, factors=factors)
        nodes = range(len(self.graph.nodes)) if self._operator.backward else _chosen_among(self.graph, self.inputs)
        if nodes:
            yield self._rounded(dict.fromkeys(nodes, INTERMEDIATE_ROUNDOFFS * self._roundoff), seed)
        if self._operator.backward:
            yield self.expected[: self._results] + self._rounded(self._handed, seed)[self._results :]

    def _rounded(self, steps: Mapping[int, float], seed: int) -> Tensors:
        rounding = partial(_rounded_at_random, steps, self._generator(seed))
        return evaluate(self.graph, self.inputs, double=True, rounding=rounding)

    def _from_what_is_handed(self) -> Tensors:
        """Return results with gradients computed from rounded results; `expected` if there are no gradients.

        Inputs of few distinct values give results of few distinct values, and equal ones are rounded alike: the effect
        on a sum does not average out as that of random roundings does.
        """
        if not self._operator.backward:
            return self.expected
        moved = evaluate(self.graph, self.inputs, double=True, rounding=partial(_rounded_to, self._handed_dtypes))
        return self.expected[: self._results] + moved[self._results :]

    def unexplained(self, number: int, got: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
        """Return the places of a wrong integer result that no rounding explains.

        A float may lie on the border of two integers, as the largest of a row over its own scale, and then it is on
        either side. So may one that is compared: indices of computed values that are equal but for rounding are in
        either order. What the reference itself rounds on the way, by a cast, may be rounded or not. Sums of integers,
        and choices among inputs, have no such border. A cast of NaN, or of a float beyond the integers of the dtype,
        has no defined result: PyTorch gives another one on a card than on a CPU.

        Args:
            number: Number of the result.
            got: The result.
            wrong: Places where it is not as expected; not changed.
        """
        rounded, expected = _rounded_floats(self.graph, self.inputs), self.expected[number]
        if choice := Choice.of(self.graph, number, rounded):
            return _chosen_otherwise(self, choice, got, wrong, number)
        if self._operator.results[number].dtype != "bool":
            wrong = wrong & ~undefined_casts(self.graph, number, self.inputs)
        if not (rounded.outputs[number] or rounded.compared[number]) or not wrong.any():
            return wrong
        found, cast = got.to(torch.int64), evaluate(self.graph, self.inputs, double=True, changes=NARROWED)
        near = [(found - right.to(torch.int64)).abs() <= 1 for right in (expected, cast[number])]
        for moved in chain((cast,), self._roundings(rounded.nodes)):
            same = moved[number].to(torch.int64) == found
            wrong = wrong & ~(same & (near[0] | near[1]) if rounded.outputs[number] else same)
            if not wrong.any():
                break
        return wrong

    def _roundings(self, nodes: Iterable[int]) -> Iterator[Tensors]:
        """Yield the results of random roundings, with and without those of casts."""
        sizes = dict.fromkeys(nodes, INTERMEDIATE_ROUNDOFFS * self._roundoff)
        for seed in range(NUDGES + FURTHER_NUDGES):
            moves = partial(_rounded_at_random, sizes, self._generator(seed))
            yield evaluate(self.graph, self.inputs, double=True, rounding=moves, changes=None if seed % 2 else NARROWED)

    @property
    def _results(self) -> int:
        """Number of results besides gradients."""
        return len(self._operator.outputs)

    @cached_property
    def _handed(self) -> dict[int, float]:
        """Relative steps by which results that gradients are computed from are moved, by node."""
        return {
            node: HANDED_ROUNDOFFS * float(torch.finfo(dtype).eps / 2) for node, dtype in self._handed_dtypes.items()
        }

    @cached_property
    def _handed_dtypes(self) -> dict[int, torch.dtype]:
        """Dtypes of the float results that gradients are computed from, by node."""
        found = zip(self.graph.outputs[: self._results], self.graph.output_dtypes, strict=False)
        dtypes = {origin(self.graph, value): getattr(torch, dtype) for value, dtype in found}
        return {node: dtype for node, dtype in dtypes.items() if node is not None and dtype.is_floating_point}

    def _nudge(self, seed: int, coarse: bool) -> list[torch.Tensor]:
        """Return float inputs in float64, with each element and each row moved by at most a relative step.

        In place throughout: inputs of 5 GB take 18 GB in float64, and five copies at once would not fit.
        """
        roundoff, generator = self._roundoff, self._generator(seed)
        nudged = []
        for tensor in self.inputs:
            if tensor.is_floating_point():
                step = NUDGE_ROUNDOFFS * roundoff
                if coarse:
                    step = max(step, torch.finfo(tensor.dtype).eps / 2)
                factors = _moves(tensor.shape, generator).mul_(step)
                if tensor.dim():
                    row_step = ROW_ROUNDOFFS * roundoff * max(tensor.shape[-1], self._filtered) ** 0.5
                    factors += _moves((*tensor.shape[:-1], 1), generator).mul_(row_step)
                moved = factors.add_(1).mul_(readable(tensor))
                tensor = _off_zero(moved, tensor, generator) if self._operator.backward else moved
            nudged.append(tensor)
        return nudged

    @cached_property
    def _filtered(self) -> int:
        """Maximum number of terms that a convolution sums; 0 if there is none."""
        return _filtered(self.graph, self.inputs)

    @property
    def _roundoff(self) -> float:
        return float(torch.finfo(getattr(torch, self._operator.precision.accumulate)).eps / 2)

    def _generator(self, seed: int) -> torch.Generator:
        return torch.Generator(self.inputs[0].device).manual_seed(seed)

    def _stand_in(self, value: float) -> list[torch.Tensor]:
        return [t.double().nan_to_num(value, value, value) if t.is_floating_point() else t for t in self.inputs]


def _chosen_otherwise(
    reference: Expectation, choice: Choice, got: torch.Tensor, wrong: torch.Tensor, number: int
) -> torch.Tensor:
    """Return the places of wrong indices that no rounding of what they are chosen among explains.

    If that depends on an earlier choice, as of groups of experts, another group may come in where groups are equal but
    for rounding. A mask then changes values from infinite to finite, which no allowance covers: so indices are compared
    with those of moved references, too.
    """
    values, allowance = _values_of(reference, choice)
    wrong = wrong & ~choice.explains(got, reference.expected[number], values, allowance)
    if not wrong.any() or not choice.depends_on_another:
        return wrong
    allowance = torch.where(values.isfinite(), allowance, allowance.amax(choice.axis, keepdim=True))
    both = Expectation(reference._operator, choice.graph_with_places, reference.inputs, reference.draw)
    for seed in range(NUDGES + FURTHER_NUDGES):
        for moved, moved_values in both._moved(seed, both.draw == SINGULAR, TF32_STEP):
            wrong = wrong & ~choice.explains(got, moved, moved_values, allowance)
            if not wrong.any():
                return wrong
    return wrong


def _values_of(reference: Expectation, choice: Choice) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values that a result chooses among, and the largest rounding of each, float64.

    It is what inputs moved by roundoffs move, what the values lose in their own dtype, and the range where the
    accumulator underflows: a softmax has exact zeros there.
    """
    values = Expectation(reference._operator, choice.graph, reference.inputs, reference.draw)
    (exact,), (native,), (moved,) = values.expected, values.native, values.sensitivity
    lost = (readable(native).double() - exact).abs().nan_to_num(0.0, 0.0, 0.0)
    own = torch.finfo(native.dtype).eps * exact.abs().nan_to_num(0.0, 0.0, 0.0)
    tiny = torch.finfo(getattr(torch, reference._operator.precision.accumulate)).tiny
    return exact, CHOICE_NUDGES * moved.nan_to_num(0.0, 0.0, 0.0) + lost + own + tiny


def _chosen_among(graph: Graph, inputs: Sequence[torch.Tensor]) -> frozenset[int]:
    return chosen_among(graph, _rounded_floats(graph, inputs))


def _rounded_floats(graph: Graph, inputs: Sequence[torch.Tensor]) -> RoundedFloats:
    return RoundedFloats.of(graph, [at for at, tensor in enumerate(inputs) if not tensor.is_floating_point()])


def _largest_product(graph: Graph, inputs: Sequence[torch.Tensor]) -> float:
    found = [0.0]

    def note(node: int, values: torch.Tensor) -> torch.Tensor:
        if is_product(graph.nodes[node]) and values.numel():
            found.append(float(values.nan_to_num(0.0, 0.0, 0.0).abs().amax()))
        return values

    if any(map(is_product, graph.nodes)):
        evaluate(graph, inputs, double=True, rounding=note)
    return max(found)


def _filtered(graph: Graph, inputs: Sequence[torch.Tensor]) -> int:
    found = ((inputs[number], axis) for number, axis in filters(graph))
    return max((tensor.numel() // max(1, tensor.shape[axis]) for tensor, axis in found), default=0)


def _off_zero(moved: torch.Tensor, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Move exact zeros of an input up or down by a tiny number, in place."""
    zeros = tensor == 0
    return moved.add_(_moves(tensor.shape, generator).mul_(TINY).mul_(zeros)) if zeros.any() else moved


def _rounded_at_random(
    steps: Mapping[int, float], generator: torch.Generator, node: int, values: torch.Tensor
) -> torch.Tensor:
    """Move values up or down by at least half of the node's step: no decisive value may stay unmoved by chance."""
    step = steps.get(node, 0.0)
    if not step:
        return values
    moves = _moves(values.shape, generator)
    moves += moves.sgn()
    return moves.mul_(step / 2).add_(1).mul_(values)


def _moved_factor(step: float, generator: torch.Generator, values: torch.Tensor) -> torch.Tensor:
    """Move a factor that may be TF32, each element by itself."""
    return _moves(values.shape, generator).mul_(step).add_(1).mul_(values)


def _rounded_to(dtypes: Mapping[int, torch.dtype], node: int, values: torch.Tensor) -> torch.Tensor:
    """Return a node's values as rounded for its gradient; float64."""
    return values.to(dtypes[node]).double() if node in dtypes else values


def _between(exact: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Return the middle of float32 results that are finite, float64; others as they are exactly."""
    if native.dtype != torch.float32:
        return exact
    usable = native.isfinite() & exact.isfinite()
    return torch.where(usable, (exact + native.double()) / 2, exact)


def _moves(size: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Draw uniform values between -1 and 1, float64."""
    moves = torch.rand(tuple(size), generator=generator, dtype=torch.float64, device=generator.device)
    return moves.mul_(2).sub_(1)


def _and_equal(places: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the places at which two results are also the same number."""
    return places & (one == other)


def _further(distance: torch.Tensor, moved: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return the larger of a distance, overwritten in place, and that of a moved value; non-floats do not move."""
    return torch.maximum(distance, (moved - value).abs_(), out=distance) if value.is_floating_point() else distance
