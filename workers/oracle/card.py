"""The oracle's card: a context of its own, the runner's arena by its handle, and support kernels."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Self

import torch

from workers import driver
from workers.checks.error_ratio import FRACTION
from workers.commands import POISON, ByteRange
from workers.device_kernels import (
    ContentJob,
    DeviceKernels,
    SupportKernel,
    float_bits,
    stream_seed,
    timed_content,
    zone_seed,
)
from workers.oracle.answers import FloatAnswer
from workers.oracle.base import Tensors
from workers.oracle.compilation import measure_name
from workers.oracle.kernels import ROWS, SPAN, WORDS
from workers.protocol import Operator, Shape, View
from workers.runner.arena import Arena, free_idle

SHARE = 0.7
"""Share of the card's memory that the oracle may take beside other executors, answers included. Computing the expected
values of an output of 1.9 * 10**9 float32 takes twelve times its bytes, 90 GB, beside two runs in 30 GB. The memory is
released before baselines need it."""
MEASURES = 5
"""Figures per row that `workers.oracle.kernels.measure` writes."""
_ALIGNMENT = 16
# Alignment that the kernels assume, in bytes.


class CudaOracleCard:
    """A card that is open in this process; an `OracleCard`.

    Attributes:
        opened: Properties of the card, from the driver.
        device: Device of the tensors.
        memory_bytes: Size of its memory.
    """

    def __init__(self, index: int, kernels: Mapping[str, SupportKernel]) -> None:
        """Open a card by its index, with the results of `compile_support` and `compile_oracle` for its target.

        Raises:
            ToolMissing: If this machine has no such card.
            DriverError: If it cannot be used.
        """
        self.opened = driver.open_card(index)
        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        self.memory_bytes = int(torch.cuda.get_device_properties(index).total_memory)
        self._stream = torch.cuda.current_stream().cuda_stream
        self._support = DeviceKernels(kernels)
        self._arena: Arena | None = None

    def without_arena(self) -> Self:
        """Return the same card without an arena, for another executor."""
        other = copy.copy(self)
        other._arena = None
        return other

    def attach(self, handle: str, arena_bytes: int, *, alone: bool = False) -> None:
        """Attach another arena in place of the former one, or none if the handle is empty.

        If `alone`, no other process of ours has memory on the card, and the oracle may take all of it.
        """
        if self._arena is not None:
            self._arena.close()
            self._arena = None
        if handle:  # One that leaves says nothing about those that stay.
            torch.cuda.set_per_process_memory_fraction(1.0 if alone else SHARE, self.device)
            self._arena = Arena.open(bytes.fromhex(handle), arena_bytes)

    def views(self, view: View, bases: Sequence[int]) -> list[torch.Tensor]:
        """Return a plan's view in each of several buffers, which start at these bytes of the arena."""
        return self._opened_arena().views(view, bases)

    def fill(self, operator: Operator, shape: Shape, seed: str, contents: Mapping[int, Tensors]) -> None:
        """Write timed content into inputs by stream."""
        specs = timed_content(operator, shape)
        jobs = [
            ContentJob(tensor.data_ptr(), spec, stream_seed(seed, index, stream))
            for stream, tensors in contents.items()
            for index, (tensor, spec) in enumerate(zip(tensors, specs, strict=True))
        ]
        self._support.fill_content(self._stream, jobs)

    def address(self, offset: int, size: int) -> int:
        """Return the address of a range of the arena."""
        return self._opened_arena().address(offset, size)

    def sums(self, memory: Sequence[Sequence[int]], sizes: Sequence[int], key: int) -> torch.Tensor:
        """Return checksums of memory, (rows, columns) int64, by `workers.device_kernels.kernels.sum_up`."""
        found = torch.zeros((len(memory), len(sizes)), dtype=torch.int64, device=self.device)
        regions = ((address, size) for row in memory for address, size in zip(row, sizes, strict=True))
        targets = range(found.data_ptr(), found.data_ptr() + found.nbytes, found.itemsize)
        ranges = ((*region, target) for region, target in zip(regions, targets, strict=True))
        self._support.sum_up(self._stream, ranges, key)
        return found

    def damaged_bytes(self, zones: Sequence[tuple[int, int]], seed: str) -> int:
        """Count the bytes of red zones, (offset, bytes), that do not hold the pattern of a seed."""
        return self._support.zones_count(self._stream, self._opened_arena().pointer, zones, zone_seed(seed))

    def is_poisoned(self, ranges: Sequence[ByteRange]) -> bool:
        """Return True if every byte of the ranges is poison; they begin at multiples of 16 bytes."""
        arena = self._opened_arena()
        whole = [(arena.pointer + start, size) for start, end in ranges if (size := (end - start) // 16 * 16)]
        rests = [arena.tensor(end - size, size) for start, end in ranges if (size := (end - start) % 16)]
        if self._support.count_unpoisoned(self._stream, whole):
            return False
        return not rests or bool((torch.cat(rests) == POISON).all())

    def differences(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compare pairs of equally large tensors, (pairs,) int32: zero if they are equal bit for bit."""
        pairs = [(_packed(one), _packed(other)) for one, other in zip(left, right, strict=True)]
        counts = torch.zeros(len(pairs), dtype=torch.int32, device=self.device)
        size = pairs[0][0].nbytes if pairs else 0
        if size:
            grid = (max(1, -(-(size // 8) // WORDS.value)), len(pairs), 1)
            jobs = self._table(_addresses(*pair) for pair in pairs)
            self._support.launch(self._stream, "differences", grid, [jobs.data_ptr(), counts.data_ptr(), size])
        return counts

    def margins(self, outputs: Sequence[torch.Tensor], answers: Sequence[FloatAnswer]) -> torch.Tensor:
        """Return error margins of float outputs of one dtype and shape against an answer each, (2, outputs) float32."""
        rows, columns = answers[0].values.shape
        spans, count = -(-columns // SPAN.value), len(outputs)
        seen = [_packed(_measurable(output)) for output in outputs]
        pairs = zip(seen, answers, strict=True)
        jobs = self._table(_addresses(output, answer.values, answer.inverse) for output, answer in pairs)
        measures = torch.empty((MEASURES, count, spans, rows), device=self.device)
        name = measure_name(str(outputs[0].dtype).removeprefix("torch."), columns)
        arguments = [jobs.data_ptr(), measures.data_ptr(), rows, columns, float_bits(answers[0].own)]
        self._support.launch(self._stream, name, (-(-rows // ROWS.value), spans, count), arguments)
        bounds = self._table(
            [*_addresses(answer.squares, answer.gains, answer.leeway), limits(answer)] for answer in answers
        )
        found = torch.empty((2, count), device=self.device)
        few = float_bits(FRACTION * answers[0].values.numel())
        arguments = [bounds.data_ptr(), measures.data_ptr(), found.data_ptr(), rows, spans, few]
        self._support.launch(self._stream, "sift", (count, 1, 1), arguments)
        return found

    def free(self, beyond: int = 0) -> None:
        """Release unused memory, if it is more than `beyond` bytes."""
        free_idle(self.device, beyond)

    def peak_bytes(self) -> int:
        """Return the maximum size of all tensors together since the last call."""
        found = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        return found

    def _opened_arena(self) -> Arena:
        if self._arena is None:
            raise ValueError("no arena is attached")
        return self._arena

    def _table(self, rows: Iterable[Sequence[int]]) -> torch.Tensor:
        """Put words on the card. The driver copies them at once, so the host does not wait for the card."""
        words = torch.tensor([*chain.from_iterable(rows)], dtype=torch.int64)
        return words.to(self.device, non_blocking=True)


def _measurable(output: torch.Tensor) -> torch.Tensor:
    """Return an output in a dtype that has a kernel: float16 holds every value of float8."""
    return output.half() if output.itemsize == 1 else output


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as the kernels take it: a copy if it is not contiguous or not aligned."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor


def _addresses(*tensors: torch.Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def limits(answer: FloatAnswer) -> int:
    """Return the bias limits of an answer as `workers.oracle.kernels.sift` takes them, in one word."""
    return float_bits(answer.gain_limit) | answer.widened << 32
