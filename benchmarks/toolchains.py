"""Pairs of torch and Triton: what installs, what passes, and how the plans of equal sources differ.

    python -m benchmarks.toolchains [--only 3.9.0 ...] [--folder DIR]

Each pair lies in a folder of its own over the packages of this environment, and is kept for later runs. An executor in
that environment traces and judges the sources on `model:sm_90`. An executor of this environment then assembles the
traced plans again, with the ptxas that they name.
"""

import argparse
import asyncio
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write
from benchmarks.same_verdicts import DEVICE, HERE, SHAPES_SEED, Source, traced
from service.errors import ServiceError
from service.evaluation.executor_client import LocalExecutor
from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from workers.keep_ptxas import keep
from workers.options import cache_home
from workers.protocol import Bundle, MeasureJob, Outcome, Report, ShapeRole, TraceJob, TraceReport
from workers.safe_python import safe_environment

ROOT = Path(__file__).parents[1]
SEEDS = ("softmax", "rmsnorm", "matmul", "attention")
"""Operators whose first seed is judged."""
GLUON = ("softmax_gluon", "matmul_gluon_specialised")
"""Kernels in Gluon from `tests/gpu/kernels`; a model device traces them and does not interpret them."""
INSTALL_S = 1800.0
"""Maximum seconds of pip for one pair; CUDA builds of torch bring 2.5 GB along."""
FREE_BYTES = 12 * 2**30
"""Free space below which no pair is installed; one takes 5 GB, and twice as much while it is unpacked."""

_EXECUTOR = ("-P", "-m", "workers", "bench")


class NotInstallable(Exception):
    """Raised if a pair cannot be had here; says why."""


@dataclass(frozen=True)
class Pair:
    """One pair of packages; without `torch`, this environment's is used."""

    triton: str
    torch: str = ""

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"torch-{self.torch}-triton-{self.triton}" if self.torch else f"triton-{self.triton}"


PINNED = Pair("")
"""The pair of this environment."""
OLDEST, NEWEST = Pair("3.6.0", "2.11.0"), Pair("3.9.0", "2.15.0")
BESIDE = (Pair("3.8.0"), Pair("3.9.0"))
"""Triton beside this environment's torch."""
PAIRS = (PINNED, *BESIDE, OLDEST, NEWEST, Pair("3.8.0", "2.14.1"), Pair("3.7.1", "2.12.1"))
"""All pairs that torch's releases ask for, from 2.11 to 2.15, and the others."""


def install(pair: Pair, folder: Path) -> Path:
    """Return the folder that a pair is installed in, after installing it unless it is kept.

    Raises:
        NotInstallable: If pip has no such packages for this machine, or there is no room.
    """
    place = folder / pair.name
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < FREE_BYTES:
        raise NotInstallable(f"{folder} has less than {FREE_BYTES // 2**30} GiB free")
    with tempfile.TemporaryDirectory(dir=folder) as room:
        wanted = [f"torch=={pair.torch}"] if pair.torch else []
        bounds = Path(room) / "bounds.txt"
        bounds.write_text("\n".join([*wanted, f"triton=={pair.triton}"]))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", f"{room}/site"]
        done = subprocess.run(
            [*command, *wanted, f"triton=={pair.triton}", *([] if wanted else ["--no-deps"])],
            env={**os.environ, "PIP_CONSTRAINT": str(bounds)},
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_S,
        )
        if done.returncode:
            raise NotInstallable(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")
        Path(room, "site").rename(place)
    return place


def environment(layer: Path, place: Path) -> Path:
    """Make an environment whose packages are those of a folder, then those of this environment. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    below = [path for path in site.getsitepackages() if Path(path).is_dir()]
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "layers.pth").write_text("\n".join([str(layer), *below, str(ROOT)]) + "\n")
    return place / "bin" / "python"


def sources() -> Iterator[Source]:
    """Yield name, operator and text of what is judged."""
    operators = load_catalogue()
    for name in SEEDS:
        yield name, operators[name], operators[name].seeds[0]
    for name in GLUON:
        text = (ROOT / "tests" / "gpu" / "kernels" / f"{name}.py").read_text()
        named = re.search(r"^operator: (\w+)", text, re.MULTILINE)
        assert named is not None
        yield name, operators[named[1]], text


def kernels_of(bundle: Bundle, report: TraceReport) -> list[dict[str, Any]]:
    """Return facts of the kernels at benchmark shapes: digests of text and machine code, registers and constants."""
    readings = dict(zip((plan.shape.key for plan in bundle.plans), report.variants[0].readings, strict=True))
    found = []
    for plan in (plan for plan in bundle.plans if plan.shape.role is ShapeRole.BENCHMARK):
        for launch in plan.launches:
            text = bundle.kernels[launch.kernel].assembly
            version = re.search(r"^\.version (\S+)", text, re.MULTILINE)
            found.append(
                {
                    "shape": plan.shape.key,
                    "function": launch.function,
                    "text": hashlib.sha256(text.encode()).hexdigest()[:16],
                    "ptx": version[1] if version else "",
                    "machine_code": bundle.cubins[launch.kernel][:16],
                    "registers": readings[plan.shape.key].registers,
                    "spill_bytes": readings[plan.shape.key].spill_bytes,
                    "shared_bytes": bundle.kernels[launch.kernel].shared_bytes,
                    "warps": bundle.kernels[launch.kernel].num_warps,
                    "constants": launch.constants,
                }
            )
    return found


async def judged(bench: LocalExecutor, here: LocalExecutor, source: Source) -> dict[str, Any]:
    """Trace and judge a source in one environment, and assemble its plans again in this one."""
    name, operator, text = source
    started = time.monotonic()
    report = await traced(bench, operator, text)
    row: dict[str, Any] = {"source": name, "trace": report.outcome, "reason": report.reason}
    bundle = report.variants[0].bundle if report.variants else None
    row["trace_s"] = round(time.monotonic() - started, 1)
    if bundle is None:
        return row
    assert bundle.toolchain is not None
    shapes = all_shapes(operator, SHAPES_SEED)
    graphs = (await traced(bench, operator, operator.seeds[0], references=True)).graphs
    started = time.monotonic()
    given = {"operator": operator, "device": DEVICE, "source": text, "variant": 0, "bundle": bundle}
    verdict = await bench.run(MeasureJob(**HERE, **given, graphs=graphs), Report)
    row |= {"verdict": verdict.outcome, "why": verdict.reason[:300], "judge_s": round(time.monotonic() - started, 1)}
    again = TraceJob(**HERE, operator=operator, bundle=bundle, shapes=shapes, target="sm_90")
    repeated = (await here.run(again, TraceReport)).variants[0].bundle
    row["same_machine_code_here"] = repeated is not None and repeated.cubins == bundle.cubins
    row["identity"] = bundle.identity[:16]
    return row | {"toolchain": bundle.toolchain.versions, "kernels": kernels_of(bundle, report)}


async def examine(pair: Pair, folder: Path, chosen: Sequence[Source]) -> dict[str, Any]:
    """Install a pair and judge sources with it; what fails is part of the row."""
    started = time.monotonic()
    row: dict[str, Any] = {"pair": pair.name if pair.triton else "pinned"}
    with tempfile.TemporaryDirectory() as room:
        command = [sys.executable]
        if pair.triton:
            try:
                layer = await asyncio.to_thread(install, pair, folder)
            except (NotInstallable, subprocess.TimeoutExpired) as error:
                return row | {"installed": False, "reason": str(error)}
            command = [str(environment(layer, Path(room) / "environment"))]
            keep([str(layer)])
        row |= {"installed": True, "ready_s": round(time.monotonic() - started, 1), "sources": []}
        async with AsyncExitStack() as stack:
            bench, here = [
                await stack.enter_async_context(LocalExecutor("both", device=DEVICE, command=(*python, *_EXECUTOR)))
                for python in (command, [sys.executable])
            ]
            row["versions"] = (await bench.ready()).versions
            for source in chosen:
                try:
                    row["sources"].append(await judged(bench, here, source))
                except ServiceError as error:
                    row["sources"].append({"source": source[0], "error": str(error)})
                print(pair.name, row["sources"][-1], flush=True)
    return row


def passes(row: Mapping[str, Any]) -> bool:
    """Return True if a pair traces all sources, judges those in Triton correct, and its plans assemble here alike."""
    return bool(row["installed"]) and all(
        found.get("same_machine_code_here")
        and found.get("verdict") == (Outcome.NOT_INTERPRETABLE if found["source"] in GLUON else Outcome.CORRECT)
        for found in row["sources"]
    )


def main() -> None:
    """Examine the pairs, one after the other."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", default=[], help="names of pairs")
    options.add_argument("--folder", type=Path, default=cache_home() / "toolchains", help="folder of kept pairs")
    asked = options.parse_args()
    os.environ.update(safe_environment(os.environ))
    rows = {row["pair"]: row for row in _kept() if asked.only}
    for pair in PAIRS:
        if not asked.only or pair.name in asked.only:
            row = asyncio.run(examine(pair, asked.folder.absolute(), list(sources())))
            rows[row["pair"]] = {**row, "passes": passes(row), "date": datetime.now(UTC).date().isoformat()}
            pinned = {name: importlib.metadata.version(name) for name in ("torch", "triton")}
            write("toolchains", list(rows.values()), pinned=pinned)


def _kept() -> list[dict[str, Any]]:
    """Rows of the committed file, which stay if only some pairs are examined."""
    path = RESULTS / "toolchains.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


if __name__ == "__main__":
    main()
