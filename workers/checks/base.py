"""The check socket: one property of a correct kernel per file, ordered cheap to dear in the package's table.

A check examines the evidence of one case (one shape with one draw of inputs). It returns a finding that says if the
property holds. Checks hold no state, launch nothing and never see the candidate. They take torch tensors on any device.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

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
    """

    worst: float
    outcome: Outcome | None = None
    reason: str = field(default="")


class Check(ABC):
    """One property of a correct kernel.

    Attributes:
        name: Name in reports; also the key in the table.
    """

    name: ClassVar[str]

    @abstractmethod
    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Examine one case."""
