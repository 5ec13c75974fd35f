"""A card on the CPU: an arena, the pattern of red zones, timed content, and the passes over inputs and outputs."""

import ctypes
import hashlib
from collections.abc import Callable, Mapping, Sequence

import torch

from tests.workers.oracle.sieve import Measures, margins
from workers.device_kernels.contents import ContentKind, stream_seed, timed_content, zone_seed
from workers.float8 import beyond_rounding, is_float8
from workers.oracle.answers import FloatAnswer
from workers.oracle.base import PlanRun, Tensors
from workers.protocol import Operator, Shape, View

ARENA_BYTES = 2**24
SEED = "5eed" * 8
Kernel = Callable[..., torch.Tensor]


class PaperCard:
    """Has the shape of `workers.oracle.base.OracleCard`."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.arena = torch.empty(0, dtype=torch.uint8)
        self.arenas = {
            "ab": torch.zeros(ARENA_BYTES, dtype=torch.uint8),
            "cd": torch.zeros(64, dtype=torch.uint8),
            "": torch.empty(0, dtype=torch.uint8),
        }
        self.freed = 0
        self.idle_bytes = 1
        self.measured = 0
        self.alone = False
        self.peaks: list[int] = []

    def peak_bytes(self) -> int:
        return self.peaks.pop(0) if self.peaks else 0

    def attach(self, handle: str, arena_bytes: int, *, alone: bool = False) -> None:
        self.alone = alone
        self.arena = self.arenas[handle][:arena_bytes]

    def views(self, view: View, bases: Sequence[int]) -> list[torch.Tensor]:
        dtype = getattr(torch, view.dtype)
        if any(base + view.end_bytes > self.arena.numel() for base in bases):
            raise ValueError("it does not lie in the arena")
        starts = [(base + view.offset_bytes) // dtype.itemsize for base in bases]
        return [self.arena.view(dtype).as_strided(view.shape, view.strides, start) for start in starts]

    def fill(self, operator: Operator, shape: Shape, seed: str, contents: Mapping[int, Tensors]) -> None:
        specs = timed_content(operator, shape)
        for stream, tensors in contents.items():
            for index, (spec, tensor) in enumerate(zip(specs, tensors, strict=True)):
                generator = torch.Generator().manual_seed(stream_seed(seed, index, stream) >> 1)
                if spec.kind is ContentKind.NORMAL:
                    values = torch.randn(tensor.shape, generator=generator).clamp(spec.low, spec.high)
                elif spec.kind is ContentKind.UNIFORM:
                    values = torch.rand(tensor.shape, generator=generator) * (spec.high - spec.low) + spec.low
                else:
                    values = torch.randint(int(spec.low), int(spec.high), tensor.shape, generator=generator)
                tensor.copy_(values)

    def address(self, offset: int, size: int) -> int:
        if not 0 <= offset <= self.arena.numel() - size:
            raise ValueError("they do not lie in the arena")
        return self.arena.data_ptr() + offset

    def sums(self, memory: Sequence[Sequence[int]], sizes: Sequence[int], key: int) -> torch.Tensor:
        rows = [[keyed_sum(*stretch, key) for stretch in zip(row, sizes, strict=True)] for row in memory]
        return torch.tensor(rows, dtype=torch.int64).reshape(len(memory), len(sizes))

    def damaged_bytes(self, zones: Sequence[tuple[int, int]], seed: str) -> int:
        return sum(int((self.arena[start : start + size] != pattern(start, size, seed)).sum()) for start, size in zones)

    def is_poisoned(self, ranges: Sequence[tuple[int, int]]) -> bool:
        return all(bool((self.arena[start:end] == 0xFF).all()) for start, end in ranges)

    def differences(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> torch.Tensor:
        pairs = zip(left, right, strict=True)
        return torch.tensor([int((raw(one) != raw(other)).sum()) for one, other in pairs], dtype=torch.int32)

    def margins(self, outputs: Sequence[torch.Tensor], answers: Sequence[FloatAnswer]) -> torch.Tensor:
        self.measured += len(outputs)
        rows = [measure_one(output, answer) for output, answer in zip(outputs, answers, strict=True)]
        return margins(Measures(*(torch.stack(each) for each in zip(*rows, strict=True))), answers)

    def free(self, beyond: int = 0) -> None:
        self.freed += self.idle_bytes > beyond

    def prepare(self, run: PlanRun) -> None:
        """Write the pattern around a run's buffers, and poison them."""
        for start, size in run.slot.zones:
            self.arena[start : start + size] = pattern(start, size, run.content.seed)
        for buffer, offset in zip(run.plan.buffers, run.slot.buffers, strict=True):
            self.arena[offset : offset + buffer.bytes] = 0xFF


def keyed_sum(address: int, size: int, key: int) -> int:
    """What memory adds up to on paper: another number for other memory, as with the kernel."""
    digest = hashlib.blake2b(ctypes.string_at(address, size), digest_size=8, key=key.to_bytes(8)).digest()
    return int.from_bytes(digest, signed=True)


def measure_one(output: torch.Tensor, answer: FloatAnswer) -> Tensors:
    """The measures of one output, row by row, in the order of `Measures`."""
    values = answer.values
    got = output.to(values.dtype).reshape(values.shape)
    usable = got.isfinite() & values.isfinite()
    alike = (got == values) | (got.isnan() & values.isnan())
    error = torch.where(usable, (got - values) * answer.inverse[:, None], 0.0).float()
    value = torch.where(usable, values * answer.inverse[:, None], 0.0).float()
    missed = error
    if is_float8(output.dtype):
        beyond = beyond_rounding(output.reshape(values.shape), values.double())
        missed = torch.where(usable, beyond * answer.inverse[:, None], 0.0).float()
        error = torch.where(missed.abs() > answer.own / 2 * value.abs(), error, 0.0)
    ratio = missed.abs() / (answer.own * value.abs()).clamp(min=1.0)
    return (
        missed.square().sum(1),
        (error * value).sum(1),
        ratio.amax(1),
        (missed.abs() > (answer.own * value.abs()).clamp(min=0.5)).sum(1).float(),
        (~usable & ~alike).sum(1).float(),
    )


def pattern(start: int, size: int, seed: str) -> torch.Tensor:
    return pattern_of(start, size, zone_seed(seed))


def pattern_of(start: int, size: int, seed: int) -> torch.Tensor:
    return ((torch.arange(start, start + size) * 2654435761 + seed % 2**31) >> 9).to(torch.uint8)


def raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
