"""Leases on searches: a coordinator takes searches, renews their leases, and releases them.

Several coordinators share one archive. One of them holds each search at a time, for a few seconds unless renewed. If a
coordinator dies, its leases lapse and the others take its searches. If one joins, the others release what they hold
beyond their new share.
"""

import asyncio
import time
from collections.abc import Collection, Sequence

import structlog
from uuid6 import uuid7

from archive.errors import ArchiveError
from archive.store import Store
from service.tasks import end

TERM_S = 5.0
"""Seconds without a renewal after which others may take a search. Together with the pause between two looks, a sweep
and the redelivery of reports, a search goes on within ten seconds."""
RENEW_S = 1.0
"""Seconds between renewals: four may fail before anything is lost."""
MARGIN_S = 0.5
"""Seconds by which a holder counts its lease shorter than the database does: it stops before another one starts."""
TAKEN_AT_ONCE = 16
"""Maximum number of searches taken at once, so that a dead coordinator's searches are spread over the others."""

ALL = 1_000_000
"""Share of a single coordinator: more searches than are ever open."""

log = structlog.get_logger(__name__)


class SearchLeases:
    """Leases of one coordinator.

    Attributes:
        holder: Id of the coordinator, new at each start.
        alone: True if no other coordinator runs; it then takes over leases that an earlier run left behind.
        named_only: True if it takes no search but those that `take` names: a command runs its own search only.
    """

    def __init__(self, store: Store, *, alone: bool, named_only: bool = False, term_s: float = TERM_S) -> None:
        self.holder = str(uuid7())
        self.alone = alone
        self.named_only = named_only
        self._leases = store.search_leases
        self._term_s = term_s
        self._held: frozenset[str] = frozenset()
        self._share = ALL
        self._until = 0.0
        self._renew_at = 0.0
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> frozenset[str]:
        """Ids of the searches held now; none if the last renewal is too old and other coordinators may run."""
        return self._held if self.alone or time.monotonic() < self._until else frozenset()

    def start(self) -> None:
        """Renew in the background, however long other work takes, until `stop`."""
        self._task = asyncio.create_task(self._keep(), name="lease")

    async def stop(self) -> None:
        """Release everything, so that others go on at once. If the database does not answer, the leases lapse."""
        if self._task is not None:
            await end([self._task])
        try:
            await self.release(self._held)
            await self._leases.leave(self.holder)
        except ArchiveError as error:
            log.warning("leases not released; they lapse", reason=str(error))

    async def refresh(self) -> None:
        """Renew the leases, and take searches without a holder, if that is due.

        Raises:
            DatabaseUnavailable: If the database does not answer; leases stay valid until their term ends.
        """
        async with self._turn:
            if time.monotonic() >= self._renew_at:
                await self._renew()

    async def take(self, search: str) -> bool:
        """Take one search at once. Returns True if it is held now."""
        async with self._turn:
            if search not in self.held:
                began = time.monotonic()
                taken = await self._leases.take(self.holder, self._term_s, most=1, search=search, by_force=self.alone)
                self._until = self._until if self.held else began + self._term_s - MARGIN_S
                self._held |= {lease.search for lease in taken}
            return search in self.held

    async def share(self, spare: Sequence[str]) -> None:
        """Release what is held beyond a fair share, so that another coordinator takes it.

        Args:
            spare: Searches that may be released, the easiest to hand over first.
        """
        mine = [search for search in spare if search in self.held]
        await self.release(mine[: max(0, min(len(self.held) - self._share, TAKEN_AT_ONCE))])

    async def release(self, searches: Collection[str]) -> None:
        """Release searches."""
        async with self._turn:
            if searches:
                await self._leases.release(self.holder, tuple(searches))
                self._held -= frozenset(searches)

    async def _renew(self) -> None:
        began = time.monotonic()
        # One that takes named searches only must not count for the others: they would leave it a share of the rest.
        no_share = self.alone or self.named_only
        self._share = ALL if no_share else await self._leases.attend(self.holder, self._term_s)
        kept = await self._leases.renew(self.holder, self._term_s) if self._held else []
        most = ALL if self.alone else max(0, min(self._share - len(kept), TAKEN_AT_ONCE))
        taken = []
        if not self.named_only:
            taken = await self._leases.take(self.holder, self._term_s, most=most, by_force=self.alone)
        held = frozenset(lease.search for lease in (*kept, *taken))
        for lease in taken:
            log.info("search taken", search=lease.search, fence=lease.fence)
        for search in self._held - held:
            log.warning("search lost to another coordinator", search=search)
        self._held = held
        self._until = began + self._term_s - MARGIN_S
        self._renew_at = began + RENEW_S

    async def _keep(self) -> None:
        while True:
            try:
                await self.refresh()
            except ArchiveError as error:
                log.warning("leases not renewed", reason=str(error))
                await asyncio.sleep(RENEW_S / 2)
            await asyncio.sleep(RENEW_S / 4)
