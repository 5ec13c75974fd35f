"""The oracle's ingredients: the card, the operator, and runs to inspect.

Only `workers.oracle.card` touches CUDA; any `OracleCard` serves all other modules.
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
    """Memory and the few kernels that an inspection takes. Everything is on one device, in the order of the calls.

    Access outside the arena raises `ValueError`.
    """

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""

    def attach(self, handle: str, arena_bytes: int, *, alone: bool = False) -> None:
        """Attach another arena in place of the former one, or none if the handle is empty.

        If `alone`, no other process of ours has memory on the card.
        """

    def views(self, view: View, bases: Sequence[int]) -> list[torch.Tensor]:
        """Return a plan's view in each of several buffers, which start at these bytes of the arena."""

    def fill(self, operator: Operator, shape: Shape, seed: str, contents: Mapping[int, Tensors]) -> None:
        """Write timed content, as the runner does, into inputs by stream."""

    def address(self, offset: int, size: int) -> int:
        """Return the address of a range of the arena."""

    def sums(self, memory: Sequence[Sequence[int]], sizes: Sequence[int], key: int) -> torch.Tensor:
        """Return checksums of memory, (rows, columns) int64: equal for equal memory, different for different memory.

        Args:
            memory: Addresses by row and column, multiples of 16.
            sizes: Bytes of the ranges, by column.
            key: An odd number of 63 bits that checksums follow from. Without it a checksum cannot be kept as it is.
        """

    def damaged_bytes(self, zones: Sequence[tuple[int, int]], seed: str) -> int:
        """Count the bytes of red zones, (offset, bytes), that do not hold the pattern of a seed."""

    def is_poisoned(self, ranges: Sequence[ByteRange]) -> bool:
        """Return True if every byte of the ranges is 0xFF; they begin at multiples of 16 bytes."""

    def differences(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compare pairs of equally large contiguous tensors, (pairs,) int32: zero if they are equal bit for bit."""

    def margins(self, outputs: Sequence[torch.Tensor], answers: Sequence[FloatAnswer]) -> torch.Tensor:
        """Return error margins of float outputs of one dtype and shape against an answer each, (2, outputs) float32.

        The two rows are those of `workers.oracle.kernels.sift`: of errors, and of their bias.
        """

    def free(self, beyond: int = 0) -> None:
        """Release unused memory, if it is more than `beyond` bytes."""

    def peak_bytes(self) -> int:
        """Return the maximum size of all tensors together since the last call."""


@dataclass(frozen=True)
class OracleSubject:
    """The operator and its reference graphs by shape key that runs are checked against."""

    operator: Operator
    graphs: dict[str, Graph]

    @cached_property
    def digest(self) -> str:
        """The operator's identity."""
        return self.operator.digest


@dataclass(frozen=True)
class PlanRun:
    """One run of a plan: the plan, its slot and its content."""

    plan: Plan
    slot: RunSlot
    content: InputContent
