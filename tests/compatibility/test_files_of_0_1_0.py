"""Files that release 0.1.0 wrote are still read; `files/README.md` says how each was made."""

import contextlib
import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from archive.store.migration import migration_config
from service.certificates.document import read
from workers.protocol import ANSWER, Outcome, Report, TraceReport

pytestmark = pytest.mark.timeout(300)
FILES = Path(__file__).parent / "files"
REEF = (sys.executable, "-c", "from service.cli import main; main()")
DONE = "01a219bb-19f1-7689-99b3-89437d6192ef"
PAUSED = "01a219ba-8a84-7c46-adab-705ee8fa446b"
BEST = "01a219bb-4411-7bec-ac62-1fdb80bf034a"
PLAN = "6d925a7f871c9a4cde900d0d84ac6f3d2e1cfe553b25316fe4f8d01d6b55f6e9"
GAIN = 1.2687074829931972
"""Predicted speedup of the best candidate over the first seed, as release 0.1.0 reported it."""
SCHEMA = "0015"
"""Revision of the schema of release 0.1.0."""
DROPPED = {"distillations", "findings", "knowledge"}
"""Tables that revision 0016 drops, with all their rows; decision 35 says why."""


def reef(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "1"}
    return subprocess.run([*REEF, *arguments], env=environment, cwd=data, capture_output=True, text=True, timeout=250)


def unpacked(name: str, path: Path) -> Path:
    with gzip.open(FILES / f"{name}.gz") as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder of release 0.1.0, with the log of its embedded queue."""
    unpacked("archive.db", tmp_path / "reef.db")
    with tarfile.open(FILES / "queue.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def leaves(value: object) -> Iterator[str]:
    """The values in a cell; of JSON documents those inside, so that their keys may be renamed."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    elif value is not None:
        yield repr(value)


def values_in(path: Path) -> Counter[str]:
    """Every value of every table that is kept, without the names of tables and columns."""
    found: Counter[str] = Counter()
    with sqlite3.connect(path) as base:
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in set(tables) - DROPPED - {"alembic_version"}:
            for row in base.execute(f'SELECT * FROM "{table}"'):
                found.update(leaf for cell in row for leaf in leaves(cell))
    base.close()
    return found


@pytest.mark.parametrize("name", ["archive.db", "every_table.db"])
def test_an_archive_migrates_and_loses_no_value(name: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path / name)
    before = values_in(path)
    config = migration_config(f"sqlite+aiosqlite:///{path}")
    command.upgrade(config, "head")
    command.check(config)  # raises if the tables differ from a new archive's
    assert len(before) > 100 and before - values_in(path) == Counter()


def test_an_archive_opens(data: Path) -> None:
    done = reef("best", DONE, "--json", data=data)
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)
    assert (best["candidate"], best["plan"], best["speedup"]["low"]) == (BEST, PLAN, GAIN)
    assert "softmax_kernel" in best["source"]


def test_a_paused_search_resumes_and_ends(data: Path) -> None:
    done = reef("search", "--resume", PAUSED, "--json", data=data)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert (ended["search"], ended["state"], ended["evaluations"]) == (PAUSED, "done", 3)
    assert ended["best"] >= 1.0 and (data / ended["kernel"]).exists()


def test_a_certificate_verifies(tmp_path: Path) -> None:
    path = FILES / "certificate.json"
    used = read(path.read_bytes()).certificate.verdict.versions
    done = reef("verify", str(path), "--json", data=tmp_path)
    told: dict[str, Any] = json.loads(done.stdout)
    found = {step["name"]: step["found"] for step in told["steps"]}
    assert told["holds"] and "differs" not in found.values(), told
    assert found["digest"] == found["claims"] == found["correctness"] == "repeated"
    if all(version(name) == used[name] for name in ("torch", "triton")):
        assert done.returncode == 0 and set(found.values()) == {"repeated"}, told


def test_a_report_reads() -> None:
    lines = gzip.decompress((FILES / "answers.jsonl.gz").read_bytes()).splitlines()
    _, exported, seed, right, scaled, wrong, refused = (ANSWER.validate_json(line) for line in lines)
    for traced, report in ((seed, right), (scaled, wrong)):
        assert isinstance(traced, TraceReport) and isinstance(report, Report)
        bundle = traced.variants[0].bundle
        assert bundle is not None and bundle.identity == report.bundle
    assert isinstance(exported, TraceReport) and len(exported.graphs) == 1
    assert isinstance(right, Report) and right.outcome is Outcome.CORRECT and right.shapes[0].mid_us
    assert isinstance(wrong, Report) and wrong.outcome is Outcome.PRECISION and "0.208008" in wrong.reason
    assert isinstance(refused, TraceReport) and refused.outcome is Outcome.FORBIDDEN_IMPORT and "'os'" in refused.reason


def test_a_dump_loads_into_its_own_schema_and_is_refused_by_another(tmp_path: Path) -> None:
    head = ScriptDirectory.from_config(migration_config("sqlite://")).get_current_head()
    done = reef("archive", "load", str(FILES / "dump.gz"), "--json", data=tmp_path)
    if head == SCHEMA:
        assert done.returncode == 0 and json.loads(done.stdout)["candidates"] == 14, done.stderr
    else:
        assert done.returncode != 0 and SCHEMA in done.stderr and "Traceback" not in done.stderr
