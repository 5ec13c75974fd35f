"""The zip file of a search: made in parts, complete, and equal for equal archives."""

import ast
import io
import json
import zipfile
from dataclasses import fields
from pathlib import Path

import pytest

from archive.records import NewReport, NewSearch
from archive.store import Store
from service.api.zip_export import export
from service.certificates.document import read
from tests.archives import opened
from tests.service import records
from tests.service.cli.test_export import fill
from workers.protocol import Bundle, Operator


@pytest.fixture
async def store(tmp_path: Path):
    await fill(tmp_path)
    async with opened(tmp_path) as store:
        yield store


async def taken(store: Store) -> zipfile.ZipFile:
    search = await store.searches.get(records.SEARCH_ID)
    return zipfile.ZipFile(io.BytesIO(b"".join([part async for part in export(store, search)])))


async def test_every_elite_is_there_with_what_it_rests_on(store: Store) -> None:
    file = await taken(store)
    assert file.testzip() is None
    manifest = json.loads(file.read("manifest.json"))
    assert (manifest["format"], manifest["search"]["id"]) == (1, records.SEARCH_ID)
    (device,) = manifest["devices"]
    assert (device["device"], device["provenance"]) == (records.DEVICE, "predicted")
    assert device["figures"].startswith("PREDICTED")
    (elite,) = device["elites"]
    assert elite["objective"] == 1.25
    folder = "model-sm_90/cell-00002"
    assert sorted(elite["files"]) == sorted(name for name in file.namelist() if name.startswith(folder))
    assert file.read(f"{folder}/candidate.py").decode() == records.SEED
    assert any(isinstance(node, ast.FunctionDef) for node in ast.parse(file.read(f"{folder}/kernel.py")).body)
    assert Bundle.model_validate_json(file.read(f"{folder}/bundle.json")) == records.bundle_from(records.SEED)
    assert json.loads(file.read(f"{folder}/configuration.json")) == {}
    assert file.read(f"{folder}/plans.txt").decode().count("double_kernel") == len(records.SHAPES)


async def test_the_operator_comes_along(store: Store) -> None:
    file = await taken(store)
    assert Operator.model_validate_json(file.read("operator.json")) == records.OPERATOR


async def test_equal_archives_make_equal_files(store: Store) -> None:
    search = await store.searches.get(records.SEARCH_ID)
    first, second = [[part async for part in export(store, search)] for _ in range(2)]
    assert first == second
    assert len(first) == 2, "one part an elite, and the end"


async def test_a_search_without_elites_has_a_manifest(store: Store) -> None:
    empty = records.search(id="0190a000-0000-7000-8000-00000000000e")
    await store.searches.create(NewSearch(**{item.name: getattr(empty, item.name) for item in fields(NewSearch)}))
    parts = [part async for part in export(store, await store.searches.get(empty.id))]
    file = zipfile.ZipFile(io.BytesIO(b"".join(parts)))
    assert sorted(file.namelist()) == ["manifest.json", "operator.json"]
    assert json.loads(file.read("manifest.json"))["devices"][0]["elites"] == []


async def test_an_elites_certificate_is_beside_it(store: Store) -> None:
    report = records.report(
        {"N=1024": 10.0},
        search=records.SEARCH_ID,
        candidate=records.CANDIDATE_ID,
        bundle=records.bundle_from(records.SEED).identity,
    )
    new = NewReport(
        job=report.job,
        search=report.search,
        candidate=report.candidate,
        variant=0,
        bundle=report.bundle,
        operator=records.OPERATOR.digest,
        device=records.DEVICE,
        kind="measure",
        protocol_version=1,
        outcome="correct",
        reason="",
        provenance="predicted",
        document=report.model_dump_json(),
    )
    name = "model-sm_90/cell-00002/certificate.json"
    assert name not in (await taken(store)).namelist(), "there is nothing that it could rest on"
    await store.reports.save(new)
    found = read((await taken(store)).read(name))
    assert found.digest == found.certificate.id and found.certificate.place is not None
    assert found.certificate.place.cell == 2 and found.certificate.verdict.job == report.job
