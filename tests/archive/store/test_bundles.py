"""Bundles are kept once, by content."""

import pytest

from archive.errors import RecordNotFound
from archive.records import BundleRecord
from archive.store import Store
from archive.store.bundles import add_bundles
from archive.store.engine import Database


async def test_a_bundle_comes_back_whole(store: Store, database_url: str) -> None:
    document = '{"kernels": "' + "mad.lo.s32 %r1, %r2, %r3;" * 5000 + 'ß"}'
    record = BundleRecord("a" * 64, document, ({"registers": 40, "instructions": {"ld": 3}}, {"registers": None}))
    database = Database.open(database_url)
    async with database.write() as connection:
        await add_bundles(connection, [record, BundleRecord("b" * 64, "{}", ())], sure=True)
    await database.close()
    assert await store.bundles.get("a" * 64) == record
    assert await store.bundles.get("b" * 64) == BundleRecord("b" * 64, "{}", ())


async def test_what_a_trusted_worker_says_of_a_bundle_replaces_what_others_said(
    store: Store, database_url: str
) -> None:
    database = Database.open(database_url)
    for document, sure, kept in (("first", False, "first"), ("second", False, "first"), ("third", True, "third")):
        async with database.write() as connection:
            await add_bundles(connection, [BundleRecord("a", document, ({"registers": 40},))], sure=sure)
        assert (await store.bundles.get("a")).document == kept
    await database.close()
    await store.bundles.replace([BundleRecord("a", "fourth", ())])
    assert await store.bundles.get("a") == BundleRecord("a", "fourth", ())


async def test_an_unknown_bundle_is_not_found(store: Store) -> None:
    with pytest.raises(RecordNotFound):
        await store.bundles.get("a" * 64)
