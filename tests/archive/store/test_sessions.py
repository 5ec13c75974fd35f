"""Sessions are kept until they are closed or have expired."""

from dataclasses import replace

import pytest

from archive.errors import RecordConflict
from archive.records import SessionRecord
from archive.store import Store
from tests.archive.access import NOON, later, new_token


@pytest.fixture
async def session(store: Store) -> SessionRecord:
    token = await store.tokens.create(new_token())
    opened = SessionRecord("a" * 64, token.id, NOON, NOON, later(days=7))
    await store.sessions.open(opened)
    return opened


async def test_a_session_is_found_by_its_digest(store: Store, session: SessionRecord) -> None:
    assert await store.sessions.find(session.digest) == session
    assert await store.sessions.find("b" * 64) is None


async def test_its_last_use_is_the_latest(store: Store, session: SessionRecord) -> None:
    for at in (later(hours=2), later(hours=1)):
        await store.sessions.touch(session.digest, at)
    assert await store.sessions.find(session.digest) == replace(session, used_at=later(hours=2))


async def test_a_closed_one_is_gone_and_may_be_closed_again(store: Store, session: SessionRecord) -> None:
    await store.sessions.close(session.digest)
    await store.sessions.close(session.digest)
    assert await store.sessions.find(session.digest) is None


async def test_expired_ones_go_when_another_is_opened(store: Store, session: SessionRecord) -> None:
    await store.sessions.open(replace(session, digest="b" * 64, created_at=session.expires_at))
    assert await store.sessions.find(session.digest) is None
    assert await store.sessions.find("b" * 64) is not None


async def test_only_a_known_token_has_sessions(store: Store, session: SessionRecord) -> None:
    with pytest.raises(RecordConflict):
        await store.sessions.open(replace(session, digest="b" * 64, token="t9"))
    with pytest.raises(RecordConflict):
        await store.sessions.open(session)
