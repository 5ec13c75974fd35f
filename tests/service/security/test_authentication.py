"""Who is calling: tokens from making to revoking, sessions from login to their many ends."""

from datetime import timedelta
from typing import Any

import pytest
from uuid6 import uuid7

from archive.errors import RecordConflict
from archive.store import Store
from service.errors import Unauthenticated
from service.security.authentication import USE_NOTED, Authentication, identity_of, issue
from service.security.cookies import IDLE, LONGEST
from service.security.credentials import digest_of, mint
from service.security.scopes import Scope


@pytest.fixture
def authentication(store: Store, clock: Any) -> Authentication:
    return Authentication(store, clock)


async def test_a_token_says_who_is_calling(store: Store, authentication: Authentication) -> None:
    token, text = await issue(store, "laptop", {Scope.READ, Scope.STEER}, created_by="t0")
    caller = await authentication.by_token(text)
    assert (caller.token, caller.name, caller.scopes) == (token.id, "laptop", {Scope.READ, Scope.STEER, Scope.PROPOSE})
    assert all(isinstance(scope, Scope) for scope in caller.scopes)
    assert (token.scopes, token.created_by) == (("read", "steer"), "t0")


async def test_the_archive_holds_no_secret(store: Store) -> None:
    token, text = await issue(store, "laptop", {Scope.READ})
    assert text not in repr(token) and token.digest not in text
    with pytest.raises(RecordConflict):
        await issue(store, "again", {Scope.READ}, id=token.id)


async def test_what_is_no_token_is_refused(store: Store, authentication: Authentication) -> None:
    token, text = await issue(store, "laptop", {Scope.READ})
    other, _ = mint(token.id)
    for wrong in ("", "reef_", text[:-1], text + "0", text.swapcase(), mint(str(uuid7()))[0], other):
        with pytest.raises(Unauthenticated) as caught:
            await authentication.by_token(wrong)
        assert len(wrong) < 6 or wrong not in caught.value.detail


async def test_a_revoked_token_is_refused_at_once(store: Store, authentication: Authentication) -> None:
    token, text = await issue(store, "laptop", {Scope.READ})
    await authentication.by_token(text)
    await store.tokens.revoke(token.id)
    with pytest.raises(Unauthenticated):
        await authentication.by_token(text)


async def test_an_expired_token_is_refused_from_that_moment(
    store: Store, authentication: Authentication, clock: Any
) -> None:
    _, text = await issue(store, "laptop", {Scope.READ}, expires_at=clock.at + timedelta(days=1))
    clock.at += timedelta(days=1) - timedelta(microseconds=1)
    await authentication.by_token(text)
    clock.at += timedelta(microseconds=1)
    with pytest.raises(Unauthenticated):
        await authentication.by_token(text)


async def test_a_use_is_written_down_once_a_minute(store: Store, authentication: Authentication, clock: Any) -> None:
    token, text = await issue(store, "laptop", {Scope.READ})
    first = clock.at
    for wait, noted in ((timedelta(0), first), (USE_NOTED / 2, first), (USE_NOTED / 2, first + USE_NOTED)):
        clock.at += wait
        await authentication.by_token(text)
        assert (await store.tokens.get(token.id)).last_used_at == noted


async def test_a_scope_that_nobody_knows_allows_nothing(store: Store) -> None:
    token, _ = await issue(store, "laptop", {Scope.READ})
    assert identity_of(type(token)(**vars(token) | {"scopes": ("read", "fly")})).scopes == {Scope.READ}


async def test_a_session_is_its_tokens(store: Store, authentication: Authentication) -> None:
    _, text = await issue(store, "laptop", {Scope.READ})
    opened = await authentication.open_session(text)
    assert await authentication.by_session(opened.secret) == opened.identity == await authentication.by_token(text)
    assert opened.secret not in repr(opened)
    assert await authentication.by_session("x") is None


async def test_a_session_ends_when_it_is_not_used(store: Store, authentication: Authentication, clock: Any) -> None:
    _, text = await issue(store, "laptop", {Scope.READ})
    secret = (await authentication.open_session(text)).secret
    for _ in range(3):
        clock.at += IDLE - timedelta(seconds=1)
        assert await authentication.by_session(secret) is not None
    clock.at += IDLE
    assert await authentication.by_session(secret) is None


async def test_a_session_ends_however_much_it_is_used(store: Store, authentication: Authentication, clock: Any) -> None:
    _, text = await issue(store, "laptop", {Scope.READ})
    opened = await authentication.open_session(text)
    assert opened.expires_at == clock.at + LONGEST
    while clock.at + IDLE / 2 < opened.expires_at:
        assert await authentication.by_session(opened.secret) is not None
        clock.at += IDLE / 2
    clock.at = opened.expires_at
    assert await authentication.by_session(opened.secret) is None


async def test_a_session_ends_with_its_token(store: Store, authentication: Authentication, clock: Any) -> None:
    token, text = await issue(store, "laptop", {Scope.READ}, expires_at=clock.at + timedelta(hours=1))
    opened = await authentication.open_session(text)
    assert opened.expires_at == clock.at + timedelta(hours=1)
    await store.tokens.revoke(token.id)
    assert await authentication.by_session(opened.secret) is None
    with pytest.raises(Unauthenticated):
        await authentication.open_session(text)


async def test_logging_in_again_gives_another_secret_and_ends_the_session_before(
    store: Store, authentication: Authentication
) -> None:
    _, text = await issue(store, "laptop", {Scope.READ})
    before = await authentication.open_session(text)
    after = await authentication.open_session(text, replacing=before.secret)
    assert after.secret != before.secret
    assert await authentication.by_session(before.secret) is None
    assert await authentication.by_session(after.secret) is not None


async def test_a_secret_that_somebody_else_chose_begins_nothing(store: Store, authentication: Authentication) -> None:
    _, text = await issue(store, "laptop", {Scope.READ})
    planted = "planted by somebody who can set cookies"
    opened = await authentication.open_session(text, replacing=planted)
    assert opened.secret != planted
    assert await authentication.by_session(planted) is None


async def test_logging_out_ends_the_session(store: Store, authentication: Authentication) -> None:
    _, text = await issue(store, "laptop", {Scope.READ})
    secret = (await authentication.open_session(text)).secret
    await authentication.close_session(secret)
    assert await authentication.by_session(secret) is None
    assert await store.sessions.find(digest_of(secret)) is None
