"""Verdicts on the catalogue's seeds and on the rogues under equal draws, to compare two versions of the code.

python -m benchmarks.same_verdicts OUT.json [--processes 2] [--only NAME ...]
python -m benchmarks.same_verdicts --compare BEFORE.json AFTER.json

The first command judges on `model:sm_90`: the first seed of each operator, then the rogues. Held-out shapes and input
values are drawn from fixed seeds. It writes after each source and keeps the rows that OUT.json already has.
The second prints each fact that differs, writes `results/same_verdicts.json` and fails if anything differs.
"""

import argparse
import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.record import write
from service.errors import ServiceError
from service.evaluation.executor_client import LocalExecutor
from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from tests.workers.tracer.jobs import candidate
from tests.workers.tracer.jobs import operator as scale
from workers.protocol import Device, Graph, MeasureJob, Operator, Report, TraceJob, TraceReport

DEVICE = Device.parse("model:sm_90")
ROGUES = Path(__file__).parents[1] / "tests" / "workers" / "rogues"
SHAPES_SEED = 7
"""Seed of the held-out shapes."""
HERE = {"id": "same", "search": "same", "candidate": "same"}
BY_CHANCE = ("device/likes_its_place",)
"""Rogues that read addresses: buffers lie at random places, so that two runs of the same code judge them differently.
Their traces and plans are compared, their verdicts are not."""
Source = tuple[str, Operator, str]


def sources() -> Iterator[Source]:
    """Yield name, operator and text: the first seed of each operator, then all rogues."""
    operators = load_catalogue()
    for name, operator in operators.items():
        yield f"seed/{name}", operator, operator.seeds[0]
    small = scale(seeds=[candidate()])
    for path in sorted(ROGUES.glob("*/*.py")):
        named = re.search(r"^operator: (\w+)", path.read_text(), re.MULTILINE)
        yield f"{path.parent.name}/{path.stem}", operators[named[1]] if named else small, path.read_text()


async def traced(bench: LocalExecutor, operator: Operator, text: str, *, references: bool = False) -> TraceReport:
    """Trace a text for all shapes; with `references` also export the graphs, without the operator's gate."""
    shapes = all_shapes(operator, SHAPES_SEED)
    job = TraceJob(**HERE, operator=operator, source=text, shapes=shapes, target="sm_90", references=references)
    return await bench.run(job, TraceReport)


async def facts(bench: LocalExecutor, source: Source, graphs: dict[str, tuple[Graph, ...]]) -> dict[str, Any]:
    """Return what a verdict says beside its reasons and its seconds; `graphs` keeps the references by operator."""
    name, operator, text = source
    report = await traced(bench, operator, text)
    row: dict[str, Any] = {"source": name, "operator": operator.digest, "trace": _where(report), "variants": []}
    given = {"operator": operator, "device": DEVICE, "source": text, "seed": hashlib.sha256(name.encode()).hexdigest()}
    for variant in report.variants:
        bundle = variant.bundle
        found: dict[str, Any] = {"variant": variant.index, "outcome": variant.outcome, "line": variant.line}
        if bundle is not None:
            if operator.name not in graphs:
                graphs[operator.name] = (await traced(bench, operator, operator.seeds[0], references=True)).graphs
            job = MeasureJob(**HERE, **given, variant=variant.index, bundle=bundle, graphs=graphs[operator.name])
            verdict = _verdict(await bench.run(job, Report))
            found |= {"plan": bundle.identity, "machine_code": sorted(bundle.cubins.values()), "verdict": verdict}
        row["variants"].append(found)
    return row


def _where(report: TraceReport | Report) -> dict[str, Any]:
    return {"outcome": report.outcome, "stage": report.stage, "line": report.line}


def _verdict(report: Report) -> dict[str, Any]:
    checks = {check.name: [check.verdict, check.worst] for check in report.checks}
    predicted_us = {shape.shape: shape.mid_us for shape in report.shapes}
    named = {"bundle": report.bundle, "trust": report.trust, "checks": checks, "predicted_us": predicted_us}
    return _where(report) | named


async def judge(out: Path, processes: int, only: list[str]) -> None:
    """Judge all sources that OUT does not have yet, several at once; a worker process that fails is replaced."""
    kept = json.loads(out.read_text())["rows"] if out.exists() else []
    rows = {row["source"]: row for row in kept if "error" not in row}
    graphs: dict[str, tuple[Graph, ...]] = {}
    left = [item for item in sources() if item[0] not in rows and (not only or item[0] in only)]

    async def one() -> None:
        while left:
            async with AsyncExitStack() as stack:
                bench = await stack.enter_async_context(LocalExecutor("both", device=DEVICE))
                while left:
                    source = left.pop(0)
                    try:
                        row = await facts(bench, source, graphs)
                    except ServiceError as error:
                        row = {"source": source[0], "error": str(error)}
                    rows[source[0]] = row
                    write(out.stem, [rows[name] for name in sorted(rows)], out.absolute().parent)
                    print(len(left), source[0], row.get("error", ""), flush=True)
                    if "error" in row:
                        break

    await asyncio.gather(*(one() for _ in range(processes)))


def differences(before: Any, after: Any, where: str) -> Iterator[str]:
    """Yield one line for each fact that differs."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{where}/{number}")
    elif before != after:
        yield f"{where}: {before} -> {after}"


def compare(before: Path, after: Path) -> bool:
    """Print what differs, write the comparison down, and return True if nothing differs."""
    runs = [json.loads(path.read_text()) for path in (before, after)]
    first, second = ({row["source"]: row for row in run["rows"]} for run in runs)
    rows = []
    for name in sorted(first.keys() | second.keys()):
        found = list(differences(first.get(name, {}), second.get(name, {}), name))
        found = [line for line in found if name not in BY_CHANCE or "/verdict/" not in line]
        found += [f"{name}: {row['error']}" for row in (first.get(name, {}), second.get(name, {})) if "error" in row]
        print("\n".join(found), end="\n" if found else "")
        rows.append({**first.get(name, {"source": name}), "differs": found})
    told = [
        {"digest": hashlib.sha256(json.dumps(run["rows"], sort_keys=True).encode()).hexdigest()}
        | {key: run[key] for key in ("machine", "versions", "date")}
        for run in runs
    ]
    different = sum(bool(row["differs"]) for row in rows)
    print(write("same_verdicts", rows, before=told[0], after=told[1], sources=len(rows), different=different))
    return not different


def main() -> None:
    """Judge, or compare two files of verdicts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path, nargs="?")
    options.add_argument("--compare", type=Path, nargs=2)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--only", nargs="*", default=[])
    chosen = options.parse_args()
    if chosen.compare:
        raise SystemExit(not compare(*chosen.compare))
    asyncio.run(judge(chosen.out, chosen.processes, chosen.only))


if __name__ == "__main__":
    main()
