"""Hosts in the archive: they join untrusted, stand as they are told, and are counted."""

from datetime import UTC, datetime
from typing import Any

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import NewRemoteWorker, RemoteWorkerCounts, RemoteWorkerState
from archive.store import Store
from tests.archive.samples import stored_candidate, stored_search, unique_id

LIVING = (RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING)


def new_host(**changes: Any) -> NewRemoteWorker:
    values: dict[str, Any] = {
        "id": unique_id(),
        "name": "rig",
        "token": "token-1",
        "target": "sm_90",
        "device": "h200",
        "versions": {"triton": "3.7.1"},
        "cores": 8,
        "jail": "user+net",
        "protocol_version": 1,
        "password_digest": "0" * 64,
        "machine": None,
    }
    return NewRemoteWorker(**{**values, **changes})


async def test_a_host_begins_active_and_untrusted(store: Store) -> None:
    host = await store.remote_workers.add(new_host())
    assert (host.state, host.trusted, host.done, host.versions) == (
        RemoteWorkerState.ACTIVE,
        False,
        0,
        {"triton": "3.7.1"},
    )
    assert await store.remote_workers.get(host.id) == host
    with pytest.raises(RecordConflict):
        await store.remote_workers.add(new_host(id=host.id))
    with pytest.raises(RecordNotFound):
        await store.remote_workers.get("nobody")


async def test_hosts_are_listed_by_state_in_order(store: Store) -> None:
    first, second, third = [await store.remote_workers.add(new_host()) for _ in range(3)]
    await store.remote_workers.set_state(second.id, RemoteWorkerState.REVOKED, only_from=LIVING)
    assert [host.id for host in await store.remote_workers.list(LIVING)] == [first.id, third.id]
    assert [host.id for host in await store.remote_workers.list([RemoteWorkerState.REVOKED])] == [second.id]


async def test_who_no_longer_works_is_no_longer_trusted(store: Store) -> None:
    host = await store.remote_workers.add(new_host())
    assert (await store.remote_workers.trust(host.id, True)).trusted
    draining = await store.remote_workers.set_state(host.id, RemoteWorkerState.DRAINING, only_from=LIVING)
    assert draining.trusted
    revoked = await store.remote_workers.set_state(host.id, RemoteWorkerState.REVOKED, reason="sold", only_from=LIVING)
    assert (revoked.state, revoked.reason, revoked.trusted) == (RemoteWorkerState.REVOKED, "sold", False)
    assert await store.remote_workers.set_state(host.id, RemoteWorkerState.REVOKED, only_from=LIVING) == revoked
    with pytest.raises(RecordConflict, match="revoked"):
        await store.remote_workers.set_state(host.id, RemoteWorkerState.DRAINING, only_from=LIVING)
    with pytest.raises(RecordConflict, match="revoked"):
        await store.remote_workers.trust(host.id, True)
    suspended = await store.remote_workers.add(new_host())
    await store.remote_workers.set_state(suspended.id, RemoteWorkerState.SUSPENDED, only_from=LIVING)
    with pytest.raises(RecordConflict, match="suspended"):
        await store.remote_workers.trust(suspended.id, True)
    with pytest.raises(RecordNotFound):
        await store.remote_workers.trust("nobody", True)


async def test_counts_add_up_and_signs_of_life_are_kept(store: Store) -> None:
    host, moment = await store.remote_workers.add(new_host()), datetime(2026, 1, 2, tzinfo=UTC)
    for _ in range(2):
        await store.remote_workers.tally(
            {host.id: RemoteWorkerCounts(1, 2, 3, 4), "nobody": RemoteWorkerCounts(1)}, {host.id: moment}
        )
    await store.remote_workers.tally({host.id: RemoteWorkerCounts()}, {})
    found = await store.remote_workers.get(host.id)
    assert (found.done, found.refused, found.checked, found.disagreed) == (2, 4, 6, 8)
    assert found.seen_at == moment


async def test_a_doubt_stays_until_a_trusted_worker_found_the_same(store: Store) -> None:
    search = await stored_search(store)
    candidate = await stored_candidate(store, search.id)
    assert await store.remote_workers.unverified_trace(candidate) is None
    for host in ("host-1", "host-2"):
        await store.remote_workers.mark_unverified(candidate, host)
    doubt = await store.remote_workers.unverified_trace(candidate)
    assert doubt is not None and (doubt.candidate, doubt.host) == (candidate, "host-1")
    for _ in range(2):
        await store.remote_workers.mark_verified(candidate)
    assert await store.remote_workers.unverified_trace(candidate) is None
    with pytest.raises(RecordConflict):
        await store.remote_workers.mark_unverified("nobody", "host-1")


async def test_a_machine_that_is_vouched_for_stays_so_when_its_workers_start_anew(store: Store) -> None:
    first, second = [await store.remote_workers.add(new_host(machine="m")) for _ in range(2)]
    elsewhere, nameless = (
        await store.remote_workers.add(new_host(machine="n")),
        await store.remote_workers.add(new_host()),
    )
    assert (await store.remote_workers.trust(first.id, True)).trusted
    assert [(await store.remote_workers.get(host.id)).trusted for host in (second, elsewhere, nameless)] == [
        True,
        False,
        False,
    ]
    for host in (first, second):
        await store.remote_workers.set_state(host.id, RemoteWorkerState.LEFT, only_from=(RemoteWorkerState.ACTIVE,))
    again = await store.remote_workers.add(new_host(machine="m"))
    assert again.trusted and (await store.remote_workers.get(again.id)).trusted
    assert not (await store.remote_workers.add(new_host(machine="n"))).trusted
    assert not (await store.remote_workers.add(new_host())).trusted
    assert not (await store.remote_workers.trust(again.id, False)).trusted
    assert not (await store.remote_workers.add(new_host(machine="m"))).trusted


@pytest.mark.parametrize("state", [RemoteWorkerState.REVOKED, RemoteWorkerState.SUSPENDED])
async def test_who_was_shut_out_is_not_trusted_when_it_comes_again(store: Store, state: RemoteWorkerState) -> None:
    host = await store.remote_workers.add(new_host(machine="m"))
    await store.remote_workers.trust(host.id, True)
    await store.remote_workers.set_state(host.id, state, only_from=(RemoteWorkerState.ACTIVE,))
    assert not (await store.remote_workers.add(new_host(machine="m"))).trusted
