"""What the axes are and tell apart, over HTTP."""

import httpx
import pytest

from archive.descriptors import DESCRIPTORS
from tests.service import records

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_descriptor_is_described(client: httpx.AsyncClient) -> None:
    axes = {axis["name"]: axis for axis in (await client.get("/descriptors")).json()}
    assert list(axes) == list(DESCRIPTORS)
    for axis in axes.values():
        assert axis["meaning"]
        assert len(axis["labels"]) == len(axis["edges"]) + 1


async def test_the_census_counts_distinct_correct_kernels(client: httpx.AsyncClient, filled) -> None:
    census = (await client.get(f"/searches/{filled.search.id}/census")).json()
    assert (census["search"], census["device"]) == (filled.search.id, records.DEVICE)
    assert census["axes"] == ["num_warps"]
    assert set(census["descriptors"]) == set(DESCRIPTORS)
    assert census["kernels"] == census["cells"]["kernels"] > 0
    assert census["cells"]["reached"] == len(census["cells"]["counts"])


async def test_a_device_without_kernels_has_an_empty_census(client: httpx.AsyncClient, filled) -> None:
    census = (await client.get(f"/searches/{filled.search.id}/census", params={"device": "model:sm_80"})).json()
    assert (census["kernels"], census["cells"]["effective"], census["shared"]) == (0, 0.0, [])


async def test_a_device_that_the_search_does_not_use_is_refused(client: httpx.AsyncClient, filled) -> None:
    assert (await client.get(f"/searches/{filled.search.id}/census", params={"device": "h200"})).status_code == 422
