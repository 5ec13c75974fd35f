"""The check socket: one property of a correct kernel per file, ordered cheap to dear in the package's table.

A check examines the evidence of one case (one shape with one draw of inputs). It returns a finding that says if the
property holds. Checks hold no state, launch nothing and never see the candidate. They take torch tensors on any device.
A statistic may be off by chance: its check decides a doubt once, by an observation of each of several fresh draws.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import torch

from workers.checks.expectation import Expectation
from workers.protocol import Operator, Outcome, Shape


@dataclass(frozen=True)
class CheckEvidence:
    """The observations of one case.

    Attributes:
        operator: The contract.
        shape: The sizes of the case.
        draw: Name of the input draw, such as `normal` or `planted`.
        inputs: Inputs of the candidate, in the operator's order.
        inputs_after: The same buffers after the run.
        outputs: Results of the candidate, each in its declared dtype and shape.
        reference: Results of the reference on these inputs; evaluated on first use.
        overwritten: Numbers of the mutable inputs whose memory is an output.
    """

    operator: Operator
    shape: Shape
    draw: str
    inputs: tuple[torch.Tensor, ...]
    inputs_after: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    reference: Expectation
    overwritten: frozenset[int] = frozenset()


@dataclass(frozen=True)
class CheckFinding:
    """The result of one check on one case. `outcome` is None if the property holds.

    Attributes:
        worst: The check's own measure; 1.0 is the border of failing, larger is worse.
        outcome: The verdict if the property does not hold.
        reason: A sentence that a person or an LLM can act on.
        doubtful: True if fresh draws may change a finding against the candidate.
    """

    worst: float
    outcome: Outcome | None = None
    reason: str = field(default="")
    doubtful: bool = False


Observation: TypeAlias = tuple[tuple[float, ...], ...]
"""A statistic of one case: a few figures for each output."""
FreshDraws: TypeAlias = Callable[[str, int], Iterable[CheckEvidence]]
"""Function that runs a candidate again at the same shape and draw, on so many fresh contents, for a check by name."""


class Check(ABC):
    """One property of a correct kernel.

    Attributes:
        name: Name in reports; also the key in the table.
        pooled: Number of fresh draws that decide a doubtful finding against a candidate together; 0 if no finding is.
            The largest, if it depends on the case.
    """

    name: ClassVar[str]
    pooled: ClassVar[int] = 0

    @abstractmethod
    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Examine one case."""

    def draws_for(self, evidence: CheckEvidence) -> int:
        """Return the number of fresh draws that decide a doubt about cases of this shape and draw."""
        return self.pooled

    def observe(self, evidence: CheckEvidence) -> Observation:
        """Return the statistic of one of the pooled draws; empty if no finding is doubtful."""
        return ()

    def decide(self, evidence: CheckEvidence, observed: Sequence[Observation]) -> CheckFinding:
        """Decide a doubt by all pooled draws together; `evidence` is of the last of them, which alone is final."""
        return self.examine(evidence)
