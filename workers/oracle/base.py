"""What the checker works with: the card under it, the contract before it, and runs to look at.

Only `workers.oracle.card` touches CUDA; whatever has the shape of a `OracleCard` will do for all the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch

from workers.commands import ByteRange, InputContent, RunSlot
from workers.oracle.answers import FloatAnswer
from workers.protocol import Graph, Operator, Plan, Shape, View

Tensors = tuple[torch.Tensor, ...]


class OracleCard(Protocol):
    """Memory and the few kernels that a look takes. Everything is on one device, in the order of the calls."""

    @property
    def device(self) -> torch.device:
        """Where tensors are."""

    def attach(self, handle: str, arena_bytes: int) -> None:
        """Look into another arena from now on, or into none if the handle is empty."""

    def views(self, view: View, bases: Sequence[int]) -> list[torch.Tensor]:
        """A plan's view in each of several buffers, which start at these bytes of the arena.

        Raises:
            ValueError: If one does not lie in it.
        """

    def fill(self, operator: Operator, shape: Shape, seed: str, contents: Mapping[int, Tensors]) -> None:
        """Write timed content, as the runner does, into inputs by stream."""

    def address(self, offset: int, size: int) -> int:
        """Where so many bytes lie that begin at a byte of the arena.

        Raises:
            ValueError: If they do not lie in it.
        """

    def sums(self, memory: Sequence[Sequence[int]], sizes: Sequence[int], key: int) -> torch.Tensor:
        """What stretches of memory add up to, (rows, columns) int64: equal ones to equal sums, others to others.

        Args:
            memory: Addresses by row and column, multiples of 16.
            sizes: Bytes of the stretches, by column.
            key: An odd number of 63 bits that sums follow from. Who does not know it cannot keep a sum as it is.
        """

    def damaged_bytes(self, zones: Sequence[tuple[int, int]], seed: str) -> int:
        """Bytes of red zones, (offset, bytes), that do not hold the pattern of a seed."""

    def is_poisoned(self, ranges: Sequence[ByteRange]) -> bool:
        """Whether every byte of stretches of the arena is 0xFF; they begin at multiples of 16 bytes."""

    def differences(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> torch.Tensor:
        """By pair of equally large contiguous tensors, (pairs,) int32: zero if they are equal bit for bit."""

    def margins(self, outputs: Sequence[torch.Tensor], answers: Sequence[FloatAnswer]) -> torch.Tensor:
        """How near float outputs of one dtype and shape are to the bounds of an answer each, (2, outputs) float32.

        As `workers.oracle.kernels.sift` says: of errors, and of what they have in common.
        """

    def free(self, beyond: int = 0) -> None:
        """Give memory back that nothing uses, if it is more than `beyond` bytes."""


@dataclass(frozen=True)
class OracleSubject:
    """What is judged by.

    Attributes:
        operator: The contract.
        graphs: The reference, by shape key.
    """

    operator: Operator
    graphs: dict[str, Graph]

    @cached_property
    def digest(self) -> str:
        """The operator's identity."""
        return self.operator.digest


@dataclass(frozen=True)
class PlanRun:
    """One run of a plan: what ran, where, on which content."""

    plan: Plan
    slot: RunSlot
    content: InputContent
