"""What a search found, to take away."""

import ast
import io
import json
import zipfile

import httpx
import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_export_is_a_zip_file_of_all_elites(client: httpx.AsyncClient, filled) -> None:
    answer = await client.get(f"/searches/{filled.search.id}/export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    assert f"double_{filled.search.id}.zip" in answer.headers["content-disposition"]
    file = zipfile.ZipFile(io.BytesIO(answer.content))
    devices = json.loads(file.read("manifest.json"))["devices"]
    shown = [
        (await client.get(f"/searches/{filled.search.id}/archive", params={"device": d["device"]})) for d in devices
    ]
    for device, archive in zip(devices, shown, strict=True):
        elites = [{name: elite[name] for name in elite if name != "files"} for elite in device["elites"]]
        unexamined = {"finalist": {"standing": "unexamined", "reason": ""}}
        assert elites == [{**elite, **unexamined} for elite in archive.json()["elites"]]
    report = json.loads(file.read("model-sm_90/cell-00001/report.json"))
    assert report["candidate"] == filled.best


async def test_a_kernel_is_a_file_that_says_where_it_came_from(client: httpx.AsyncClient, filled) -> None:
    answer = await client.get(f"/searches/{filled.search.id}/elites/1/kernel")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/x-python")
    assert f"double_{filled.best}.py" in answer.headers["content-disposition"]
    assert filled.search.id in answer.text and ast.parse(answer.text)


@pytest.mark.parametrize("cell", ["5", "nothing", "-1"])
async def test_an_empty_cell_has_no_kernel(client: httpx.AsyncClient, filled, cell: str) -> None:
    assert (await client.get(f"/searches/{filled.search.id}/elites/{cell}/kernel")).status_code == 404
