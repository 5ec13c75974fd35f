"""The axes that a grid can have, over HTTP."""

import httpx
import pytest

from archive.descriptors import DESCRIPTORS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_descriptor_is_described(client: httpx.AsyncClient) -> None:
    axes = {axis["name"]: axis for axis in (await client.get("/descriptors")).json()["items"]}
    assert list(axes) == sorted(DESCRIPTORS)
    for axis in axes.values():
        assert axis["meaning"]
        assert len(axis["labels"]) == len(axis["edges"]) + 1
