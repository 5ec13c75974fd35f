"""The support kernels in use: loaded in a process that has opened a card, enqueued on a stream."""

import ctypes
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from workers import driver
from workers.device_kernels.compilation import (
    BYTES_BLOCK,
    CONTENT_BLOCK,
    FLUSH_BLOCK,
    INTEGERS,
    SUM_BLOCK,
    WORDS_BLOCK,
    ZONE_BLOCK,
    SupportKernel,
    copy_name,
)
from workers.device_kernels.contents import ContentJob, ContentKind, ContentSpec
from workers.errors import ToolMissing
from workers.protocol import Distribution

ROWS = 1024
"""Maximum number of rows of a table: the driver copies up to 64 KiB from host memory at once, so that the host need not
wait."""
ROW_WORDS = 3
VECTOR_WORDS = 16
COPY_ALIGNMENT = 4 * VECTOR_WORDS
"""Divisor of the bytes that a copy reads and writes, so that its threads use whole vectors."""
VALUES = 8
"""Values per counter of the content kernels."""
CACHES = 2
"""Size of the flushing buffer in L2 caches (evaluation protocol 3.3, step 3)."""
MAX_DELAYS = 256
"""Maximum number of delays whose readings are kept apart."""
_HELD_WORDS = 4
"""Words of a delay's row; the last one is unused, so that rows begin at multiples of 16 bytes."""
_ORDERS = (
    Distribution.SORTED,
    Distribution.UNIQUE,
    Distribution.OFFSETS,
    Distribution.ENDS,
    Distribution.COUNTS,
    Distribution.STARTS,
)
# Numbers of ordered distributions, as `place_integers` knows them.
_DEFAULT_STREAM = 0
_WARP = 32
_WORD_BYTES = 8

Row = tuple[int, ...]


@dataclass(frozen=True)
class ClockReading:
    """Readings of the card's clocks during a delay.

    Attributes:
        clock_mhz: Cycles of its multiprocessor by the card's timer; 0 if there was no delay.
        ended_ns: End of the delay, by the card's timer.
    """

    clock_mhz: float
    ended_ns: int


class DeviceKernels:
    """The kernels on the card that is open in this thread. Use one stream at a time: tables share their memory."""

    def __init__(self, kernels: Mapping[str, SupportKernel]) -> None:
        """Load the results of `compile_support` for the card's target.

        Raises:
            DriverError: If the card refuses them.
        """
        self._kernels = kernels
        self._functions = {
            name: driver.load_function(kernel.code, kernel.entry, kernel.shared_bytes)
            for name, kernel in kernels.items()
        }
        step = 4 * FLUSH_BLOCK
        self._flush_blocks = -(-CACHES * driver.current_card().l2_bytes // step)
        self._flushed = driver.allocate(self._flush_blocks * step)
        driver.set_bytes(_DEFAULT_STREAM, self._flushed, 0, self._flush_blocks * step)
        self._table = driver.allocate((ROWS * ROW_WORDS + MAX_DELAYS * _HELD_WORDS + 1) * _WORD_BYTES)
        self._held = self._table + ROWS * ROW_WORDS * _WORD_BYTES
        self._counter = self._held + MAX_DELAYS * _HELD_WORDS * _WORD_BYTES
        driver.set_bytes(_DEFAULT_STREAM, self._held, 0, MAX_DELAYS * _HELD_WORDS * _WORD_BYTES)
        driver.synchronise(_DEFAULT_STREAM)

    def fill_content(self, stream: int, jobs: Sequence[ContentJob]) -> None:
        """Enqueue the filling of inputs, those with equal specs together.

        Raises:
            ToolMissing: If the card cannot convert to one of the dtypes.
        """
        rows: dict[ContentSpec, list[Row]] = {}
        for job in jobs:
            rows.setdefault(job.spec, []).append((job.pointer, job.seed64))
        for spec, each in rows.items():
            if not spec.elements:
                continue
            name = f"{'place' if spec.kind is ContentKind.ORDERED else 'fill'}_{spec.dtype}"
            if name not in self._functions:
                raise ToolMissing(f"this card has no {spec.dtype}")
            blocks = -(-spec.elements // (VALUES * CONTENT_BLOCK))
            for batch in _batches(each):
                self._enqueue_rows(stream, name, batch, blocks, _content_arguments(spec))

    def poison(self, stream: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Enqueue the setting of every byte of (address, bytes) ranges to 0xFF, which is NaN, or -1.

        Addresses are multiples of 16.
        """
        by_size = sorted((item for item in ranges if item[1]), key=lambda item: item[1])
        for batch in _batches(by_size):
            self._enqueue_rows(stream, "poison", batch, -(-batch[-1][1] // BYTES_BLOCK))

    def count_unpoisoned(self, stream: int, ranges: Sequence[tuple[int, int]]) -> int:
        """Count the words of 64 bits in (address, bytes) ranges that differ from `poison`. Waits for the card.

        Addresses are multiples of 16, sizes of 8.
        """
        driver.set_bytes(stream, self._counter, 0, _WORD_BYTES)
        by_size = sorted(((address, size // _WORD_BYTES) for address, size in ranges if size), key=lambda item: item[1])
        for batch in _batches(by_size):
            self._enqueue_rows(stream, "count_unpoisoned", batch, -(-batch[-1][1] // WORDS_BLOCK), [self._counter])
        return int.from_bytes(driver.read(self._counter, _WORD_BYTES), "little")

    def sum_up(self, stream: int, ranges: Iterable[tuple[int, int, int]], key: int) -> None:
        """Enqueue the adding up of (address, bytes, address of the sum) ranges, those of one size together.

        Every row of a launch gets equally many programs. Addresses are multiples of 8. The key is an odd number of 63
        bits.
        """
        rows: dict[int, list[Row]] = {}
        for row in ranges:
            if row[1]:
                rows.setdefault(row[1], []).append(row)
        for size, each in rows.items():
            blocks = -(-size // (_WORD_BYTES * SUM_BLOCK))
            for batch in _batches(each):
                self._enqueue_rows(stream, "sum_up", batch, blocks, [key])

    def flush(self, stream: int) -> None:
        """Enqueue writing so much memory that nothing else stays in the L2 cache."""
        self.launch(stream, "flush", (self._flush_blocks, 1, 1), [self._flushed])

    def copy(self, stream: int, block: int, source: tuple[int, int], target: tuple[int, int]) -> None:
        """Enqueue reading one (address, bytes) range and writing another, as much as both have from the first.

        Sizes are rounded up to `COPY_ALIGNMENT` bytes. Only where `compile_copies` added the kernels.
        """
        (start, read), (end, written) = (
            (address, -(-size // COPY_ALIGNMENT) * VECTOR_WORDS) for address, size in (source, target)
        )
        blocks = -(-max(read, written) // block)
        self.launch(stream, copy_name(block), (blocks, 1, 1), [start, read, end, written])

    def delay(self, stream: int, microseconds: float, number: int = 0) -> None:
        """Enqueue a delay; its clock readings are kept under a number below `MAX_DELAYS`."""
        readings = self._held + number * _HELD_WORDS * _WORD_BYTES
        self.launch(stream, "delay", (1, 1, 1), [round(microseconds * 1e3), readings])

    def delays(self, count: int) -> tuple[ClockReading, ...]:
        """Return the readings of the latest delays with the numbers below `count`, which must be over."""
        readings = driver.read(self._held, count * _HELD_WORDS * _WORD_BYTES)
        return tuple(
            ClockReading(cycles / max(nanoseconds, 1) * 1e3, ended_ns)
            for cycles, nanoseconds, ended_ns, _ in struct.iter_unpack(f"<{_HELD_WORDS}q", readings)
        )

    def zones_fill(self, stream: int, base: int, zones: Iterable[tuple[int, int]], seed64: int) -> None:
        """Enqueue the writing of red zones, (offset in the arena, bytes), in an arena at address `base`.

        A byte of the pattern follows from `seed64`, a result of `zone_seed`, and from the byte's offset in the arena.
        """
        for batch in _batches(_zone_rows(base, zones)):
            self._enqueue_rows(stream, "fill_zones", batch, _zone_blocks(batch), [seed64])

    def zones_count(self, stream: int, base: int, zones: Iterable[tuple[int, int]], seed64: int) -> int:
        """Count the bytes of red zones that differ from those that `zones_fill` wrote. Waits for the card."""
        driver.set_bytes(stream, self._counter, 0, _WORD_BYTES)
        for batch in _batches(_zone_rows(base, zones)):
            self._enqueue_rows(stream, "count_zones", batch, _zone_blocks(batch), [seed64, self._counter])
        return int.from_bytes(driver.read(self._counter, _WORD_BYTES), "little")

    def _enqueue_rows(
        self, stream: int, name: str, rows: Sequence[Row], blocks: int, arguments: Sequence[int] = ()
    ) -> None:
        """Enqueue a kernel over a table of at most `ROWS` rows."""
        words = (ctypes.c_uint64 * (len(rows) * len(rows[0])))(*chain.from_iterable(rows))
        driver.write(stream, self._table, ctypes.addressof(words), ctypes.sizeof(words))
        self.launch(stream, name, (blocks, len(rows), 1), [self._table, *arguments])

    def launch(self, stream: int, name: str, grid: tuple[int, int, int], arguments: Sequence[int]) -> None:
        """Enqueue one kernel by its name."""
        kernel = self._kernels[name]
        no_scratch = (0, 0)
        parameters = driver.LaunchParameters([*arguments, *no_scratch])
        launch = driver.make_launcher(self._functions[name], grid, kernel.num_warps * _WARP, kernel.shared_bytes)
        launch(stream, parameters.address)


def _content_arguments(spec: ContentSpec) -> list[int]:
    """Return the arguments of a content kernel after its table, as bits."""
    if spec.kind is ContentKind.ORDERED:
        among = int(spec.high) - int(spec.low)
        return [spec.elements, 8 * spec.columns + _ORDERS.index(spec.order), int(spec.low), among]
    if spec.dtype in INTEGERS:
        return [spec.elements, int(spec.low), int(spec.high) - int(spec.low)]
    return [spec.elements, int(spec.kind is ContentKind.NORMAL), float_bits(spec.low), float_bits(spec.high)]


def float_bits(value: float) -> int:
    """Return the bits of a float32, as a kernel takes it; values beyond its range become infinite."""
    return int.from_bytes(bytes(ctypes.c_float(value)), "little")


def _zone_rows(base: int, zones: Iterable[tuple[int, int]]) -> list[Row]:
    rows = ((base + offset, offset, size) for offset, size in zones if size)
    return sorted(rows, key=lambda row: row[2])


def _zone_blocks(rows: Sequence[Row]) -> int:
    return -(-rows[-1][2] // ZONE_BLOCK)


def _batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS]
