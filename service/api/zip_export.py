"""Zip file of a search: all elites with their description, evidence and runnable file."""

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import Any

from typing_extensions import Buffer

from archive.grid import Grid
from archive.records import EliteRecord, SearchRecord
from archive.store import Store
from service.analysis.kernels import read_kernel
from service.api import builders
from service.certificates.certifier import Certifier
from service.evaluation.figure_labels import in_words, provenance, relative_to
from service.evaluation.finalists import finalists
from workers.protocol import Bundle, Operator, Readings
from workers.protocol.words import describe

FORMAT = 1
"""Version of the layout, in the manifest; raised when readers have to change."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Timestamp of all entries, the earliest in zip files, so that equal archives make equal files."""
LEVEL = 6
"""Compression level, zlib's default: PTX shrinks about eightfold."""


class _StreamBuffer(io.RawIOBase):
    """Buffer of the zip file's bytes until they are sent. It cannot seek, so sent bytes need not be kept."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Buffer, /) -> int:
        taken = bytes(part)
        self._parts.append(taken)
        return len(taken)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


async def export(store: Store, search: SearchRecord) -> AsyncIterator[bytes]:
    """Build the zip file of a search in parts, one elite at a time.

    Yields:
        Bytes of the file, in order.

    Raises:
        RecordNotFound: If the search's operator is missing.
    """
    document = (await store.operators.get(search.operator)).document
    operator = Operator.model_validate_json(document)
    sink, devices, certifier = _StreamBuffer(), [], Certifier(store)
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as file:
        _add(file, "operator.json", document)
        for device in search.devices:
            shown = []
            for elite in await store.elites.list(search.id, device, search.axes_version):
                files = await _files(store, search, operator, elite)
                files |= await _certificate(certifier, search, elite)
                await asyncio.to_thread(_add_all, file, files)
                shown.append(await _shown(store, search, elite, files))
                yield sink.take()
            devices.append(_device(search, device, shown))
        _add(file, "manifest.json", _text(_manifest(search, operator, devices)))
    yield sink.take()


async def _files(store: Store, search: SearchRecord, operator: Operator, elite: EliteRecord) -> dict[str, str]:
    """Build the files of one elite, by name in the zip file."""
    kernel = await read_kernel(store, search, operator, elite)
    stored = await store.bundles.get(elite.bundle)
    bundle = Bundle.model_validate_json(stored.document)
    words = [
        line
        for index, readings in enumerate(stored.readings)
        for line in (*describe(bundle, index, Readings.model_validate(readings)), "")
    ]
    folder = _folder(elite)
    return {
        f"{folder}/kernel.py": kernel.text,
        f"{folder}/candidate.py": kernel.candidate.source,
        f"{folder}/configuration.json": _text(dict(kernel.variant.configuration)),
        f"{folder}/report.json": kernel.report.model_dump_json(indent=2) if kernel.report else "null",
        f"{folder}/bundle.json": stored.document,
        f"{folder}/plans.txt": "\n".join(words),
    }


async def _certificate(certifier: Certifier, search: SearchRecord, elite: EliteRecord) -> dict[str, str]:
    """Build the elite's certificate, unless the archive lacks its evidence."""
    certificate = await certifier.of_elite(search, elite)
    return {} if certificate is None else {f"{_folder(elite)}/certificate.json": certificate.text()}


def _folder(elite: EliteRecord) -> str:
    return f"{elite.device.replace(':', '-')}/cell-{elite.cell:05}"


async def _shown(store: Store, search: SearchRecord, elite: EliteRecord, files: Mapping[str, str]) -> dict[str, Any]:
    finalist = (await finalists(store, [elite]))[elite.job]
    shown = builders.elite_of(search, elite, Grid(search.axes), finalist)
    return {**shown.model_dump(mode="json"), "files": list(files)}


def _device(search: SearchRecord, device: str, elites: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "device": device,
        "provenance": provenance(device),
        "relative_to": relative_to(device, search),
        "figures": in_words(device, relative_to(device, search)),
        "cells": Grid(search.axes).cells,
        "elites": elites,
    }


def _manifest(search: SearchRecord, operator: Operator, devices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kernelreef": version("kernelreef"),
        "search": builders.search_of(search).model_dump(mode="json"),
        "operator": {"name": operator.name, "digest": operator.digest, "file": "operator.json"},
        "axes": [builders.axis_of(axis).model_dump(mode="json") for axis in search.axes],
        "devices": devices,
    }


def _text(value: object) -> str:
    return json.dumps(value, indent=2)


def _add_all(file: zipfile.ZipFile, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        _add(file, name, text)


def _add(file: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    # A candidate's text may hold lone surrogates, which have no UTF-8 form.
    file.writestr(entry, text.encode(errors="replace"))
