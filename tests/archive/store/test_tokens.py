"""Tokens are kept, found, revoked for good, and remembered when used."""

from datetime import timedelta

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.store import Store
from tests.archive.access import NOON, later, new_token


async def test_a_token_is_kept_once(store: Store) -> None:
    new = new_token(expires_at=NOON, created_by="t0")
    first = await store.tokens.create(new)
    assert await store.tokens.create(new) == first == await store.tokens.get(new.id)
    assert (first.scopes, first.expires_at, first.created_by) == (("read", "admin"), NOON, "t0")
    assert (first.revoked_at, first.last_used_at) == (None, None)


async def test_an_id_stands_for_one_secret(store: Store) -> None:
    new = new_token()
    await store.tokens.create(new)
    with pytest.raises(RecordConflict, match="already"):
        await store.tokens.create(new_token(id=new.id, digest="1" * 64))
    assert (await store.tokens.get(new.id)).digest == new.digest


async def test_a_revoked_token_stays_revoked_since_then(store: Store) -> None:
    new = new_token()
    await store.tokens.create(new)
    revoked = await store.tokens.revoke(new.id)
    assert revoked.revoked_at is not None
    assert await store.tokens.revoke(new.id) == revoked
    assert not revoked.is_usable(NOON)


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(RecordNotFound, match="no token t9"):
        await store.tokens.get("t9")
    with pytest.raises(RecordNotFound, match="no token t9"):
        await store.tokens.revoke("t9")


async def test_the_last_use_is_the_latest(store: Store) -> None:
    new = new_token()
    await store.tokens.create(new)
    await store.tokens.touch(new.id, later(minutes=1))
    await store.tokens.touch(new.id, NOON)
    assert (await store.tokens.get(new.id)).last_used_at == later(minutes=1)


async def test_tokens_are_listed_newest_first(store: Store) -> None:
    made = [(await store.tokens.create(new_token())).id for _ in range(3)]
    assert [token.id for token in await store.tokens.list(limit=2)] == [made[2], made[1]]
    assert [token.id for token in await store.tokens.list(before=made[1])] == [made[0]]


async def test_a_usable_token_of_a_scope_is_found(store: Store) -> None:
    assert not await store.tokens.is_there_any()
    await store.tokens.create(new_token(scopes=("read",)))
    await store.tokens.create(new_token(expires_at=NOON))
    assert await store.tokens.is_there_any()
    assert await store.tokens.usable("admin", NOON) is None
    found = await store.tokens.usable("admin", NOON - timedelta(seconds=1))
    assert found is not None and found.expires_at == NOON
    await store.tokens.revoke(found.id)
    assert await store.tokens.usable("admin", NOON - timedelta(seconds=1)) is None


async def test_many_are_found_at_once_and_those_not_there_left_out(store: Store) -> None:
    first, second = new_token(), new_token()
    kept = {new.id: await store.tokens.create(new) for new in (first, second)}
    assert await store.tokens.find([first.id, second.id, "t9"]) == kept
    assert await store.tokens.find([]) == {}
