"""Filling: content of a slot before a run. Inputs by content, red zones by pattern, everything else poisoned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import SystemRandom

import torch

from workers import driver
from workers.commands import POISON, TIMED, InputContent, RunCase, RunSlot
from workers.device_kernels import ContentJob, DeviceKernels, assign_content, zone_seed
from workers.inputs import draw
from workers.memory_layout import written
from workers.runner.arena import Arena
from workers.runner.loaded_plans import LoadedPlan

_RANDOM = SystemRandom()


@dataclass(frozen=True)
class SlotRefill:
    """Work on slots before they are timed: inputs to fill, and (address, bytes) to poison."""

    jobs: list[ContentJob]
    poisoned: list[tuple[int, int]]


class SlotFiller:
    """Fills slots of an arena; everything is enqueued on one stream."""

    def __init__(self, support: DeviceKernels, arena: Arena, stream: int) -> None:
        self._support = support
        self._arena = arena
        self._stream = stream

    def fill(self, cases: Sequence[tuple[LoadedPlan, RunCase]], zones: str) -> None:
        """Enqueue everything for one run of each case, with red zones of a secret, hexadecimal.

        Raises:
            ValueError: If a content's draw does not exist.
        """
        refill = SlotRefill([], [])
        for loaded_plan, case in cases:
            content = case.content
            if content.draw == TIMED:
                self._add(refill, loaded_plan, case.slot, content.seed, content.stream)
            else:
                self._draw(loaded_plan, case.slot, content)
                self._poison(refill, self._poisoned(loaded_plan, case.slot), case.poison)
        self.refill(refill)
        self.fill_zones((case.slot for _, case in cases), zones)

    def prepare(
        self, loaded_plan: LoadedPlan, slots: Sequence[RunSlot], seed: str, streams: Sequence[int]
    ) -> SlotRefill:
        """Prepare timed content of a secret, one stream per slot, and poison.

        The order is random: tables of fills lie in memory that a candidate could find, and must not reveal decoys.
        """
        refill = SlotRefill([], [])
        pairs = list(zip(slots, streams, strict=True))
        for slot, stream in _RANDOM.sample(pairs, len(pairs)):
            self._add(refill, loaded_plan, slot, seed, stream)
        return refill

    def refill(self, refill: SlotRefill) -> None:
        """Enqueue prepared work in a few launches; red zones stay as they are."""
        self._support.fill_content(self._stream, refill.jobs)
        self._support.poison(self._stream, refill.poisoned)

    def fill_zones(self, slots: Iterable[RunSlot], seed: str) -> None:
        """Enqueue the red zones of slots; `seed` is the secret of a content or a round, hexadecimal."""
        zones = (zone for slot in slots for zone in slot.zones)
        self._support.zones_fill(self._stream, self._arena.pointer, zones, zone_seed(seed))

    def written(self, loaded_plan: LoadedPlan, slots: Iterable[RunSlot], checksum: int) -> list[tuple[int, int, int]]:
        """Return (address, bytes, checksum) of everything that a plan's runs in these slots may write to."""
        regions = (region for slot in slots for region in written(loaded_plan.operator, slot))
        return [(self._arena.pointer + start, end - start, checksum) for start, end in regions]

    def _add(self, refill: SlotRefill, loaded_plan: LoadedPlan, slot: RunSlot, seed: str, stream: int) -> None:
        inputs = [self._arena.pointer + offset for offset in slot.buffers[: len(loaded_plan.contents)]]
        refill.jobs.extend(assign_content(loaded_plan.contents, seed, stream, inputs))
        refill.poisoned.extend(self._poisoned(loaded_plan, slot))

    def _poisoned(self, loaded_plan: LoadedPlan, slot: RunSlot) -> list[tuple[int, int]]:
        return [(self._arena.pointer + offset, size) for offset, size in loaded_plan.loaded.layout.poisoned(slot)]

    def _poison(self, refill: SlotRefill, ranges: Sequence[tuple[int, int]], poison: int) -> None:
        """Poison everything that a run is not given: at once unless it is the usual poison."""
        if poison == POISON:
            refill.poisoned.extend(ranges)
            return
        for address, size in ranges:
            if size:
                driver.set_bytes(self._stream, address, poison, size)

    def _draw(self, loaded_plan: LoadedPlan, slot: RunSlot, content: InputContent) -> None:
        secret = bytes.fromhex(content.seed)
        with self._arena.queue(self._stream):
            drawn = draw(loaded_plan.operator, loaded_plan.plan.shape, content.draw, secret, device=self._arena.device)
            for offset, values in zip(slot.buffers, drawn, strict=False):
                self._arena.tensor(offset, values.nbytes).copy_(values.reshape(-1).view(torch.uint8))
