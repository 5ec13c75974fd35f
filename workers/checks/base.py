"""The check socket: one property of a correct kernel a file, ordered cheap to dear in the package's table.

A check looks at the evidence of one case (one shape with one draw of inputs) and returns a finding when the
property does not hold. Checks hold no state, launch nothing and never see the candidate. They take torch tensors
on whatever device the evidence lives.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from workers.checks.expectation import Expectation
from workers.protocol import Operator, Outcome, Shape


@dataclass(frozen=True)
class CheckEvidence:
    """What the judge saw of one case.

    Attributes:
        operator: The contract.
        shape: The case's sizes.
        draw: Name of the input draw, such as `normal` or `planted`.
        inputs: What the candidate was given, in the operator's order.
        inputs_after: The same buffers after it ran.
        outputs: What it returned, each in its declared dtype and shape.
        reference: What the reference makes of the inputs; evaluated when a check first asks.
    """

    operator: Operator
    shape: Shape
    draw: str
    inputs: tuple[torch.Tensor, ...]
    inputs_after: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    reference: Expectation


@dataclass(frozen=True)
class CheckFinding:
    """What a check measured on one case. `outcome` is None when the property holds.

    Attributes:
        worst: The check's own measure, 1.0 at the border of failing; larger is worse.
        outcome: The verdict if the property does not hold.
        reason: A sentence that a person or an LLM can act on.
    """

    worst: float
    outcome: Outcome | None = None
    reason: str = field(default="")


class Check(ABC):
    """One property of a correct kernel.

    Attributes:
        name: What reports call it; also its key in the table.
    """

    name: ClassVar[str]

    @abstractmethod
    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Hold one case against the property."""
