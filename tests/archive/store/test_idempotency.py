"""A request that is sent again is answered once: whoever claims its key, and what becomes of claims that break off."""

import asyncio
from datetime import timedelta

from archive.store import Store
from archive.store.idempotency import KEPT, LAPSE
from tests.archive.access import NOON, attempt


async def test_one_of_many_attempts_gets_the_key(store: Store) -> None:
    claims = await asyncio.gather(*(store.replies.claim(attempt()) for _ in range(5)))
    assert [mine for _, mine in claims].count(True) == 1
    assert len({reply.resource for reply, _ in claims}) == 1


async def test_an_answer_is_kept_as_it_was_first_given(store: Store) -> None:
    claimed, _ = await store.replies.claim(attempt())
    await store.replies.settle(claimed, 202, {"location": "/a"}, b"\xff{}")
    await store.replies.settle(claimed, 500, {}, b"")
    kept, mine = await store.replies.claim(attempt(NOON + LAPSE * 2))
    assert not mine
    assert (kept.status, kept.headers, kept.body) == (202, {"location": "/a"}, b"\xff{}")
    assert (kept.resource, kept.fingerprint) == (claimed.resource, "f1")


async def test_keys_are_the_callers_own(store: Store) -> None:
    for caller, key in (("a", "k1"), ("b", "k1"), ("a", "k2")):
        assert (await store.replies.claim(attempt(caller=caller, key=key)))[1]


async def test_a_key_stays_with_its_request(store: Store) -> None:
    await store.replies.claim(attempt())
    kept, mine = await store.replies.claim(attempt(NOON + LAPSE * 2, fingerprint="f2"))
    assert (kept.fingerprint, mine) == ("f1", False)


async def test_an_attempt_that_died_is_taken_over_with_its_resource(store: Store) -> None:
    first, _ = await store.replies.claim(attempt())
    assert not (await store.replies.claim(attempt(NOON + LAPSE)))[1]
    second, mine = await store.replies.claim(attempt(NOON + LAPSE + timedelta(seconds=1)))
    assert (second.resource, mine) == (first.resource, True)
    await store.replies.put_back(first)
    await store.replies.forget(first)
    assert not (await store.replies.claim(attempt(NOON + LAPSE * 2)))[1], "the second attempt is still at it"


async def test_one_that_broke_off_is_taken_over_at_once(store: Store) -> None:
    first, _ = await store.replies.claim(attempt())
    await store.replies.put_back(first)
    second, mine = await store.replies.claim(attempt())
    assert (second.resource, mine) == (first.resource, True)


async def test_one_that_was_refused_leaves_the_key_free(store: Store) -> None:
    first, _ = await store.replies.claim(attempt())
    await store.replies.forget(first)
    second, mine = await store.replies.claim(attempt(fingerprint="f2"))
    assert (second.fingerprint, mine) == ("f2", True)
    assert second.resource != first.resource


async def test_old_keys_are_forgotten(store: Store) -> None:
    claimed, _ = await store.replies.claim(attempt())
    await store.replies.settle(claimed, 202, {}, b"")
    assert not (await store.replies.claim(attempt(NOON + KEPT)))[1]
    assert (await store.replies.claim(attempt(NOON + KEPT + timedelta(seconds=1))))[1]
