"""Searches on a card, without a language model, against eager, torch.compile, max-autotune and liger-kernel.

Each row is one search over one shape. The figures of a row are from one run after the search: the best kernel's plan is
replayed, and the baselines are timed, as cold CUDA graphs interleaved in one process.

    python -m benchmarks.searches --device h200 --minutes 2 --out results
"""

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive.records import SearchState
from benchmarks.record import write
from service.coordinator import Coordinator
from service.operators.catalogue import load_operator
from service.settings import Settings
from service.steering.requests import SearchRequest
from workers.baselines import Baseline, measure_baselines
from workers.protocol import Bundle, Device, Graph, Operator
from workers.targets import TARGETS

SHAPES = {
    "rmsnorm": {"M": 4096, "N": 4096},
    "softmax": {"M": 1024, "N": 32768},
    "cross_entropy": {"M": 4096, "V": 32000},
}
"""The shapes whose best baselines were measured before there was a search."""
POLL_S = 1.0


@dataclass(frozen=True)
class Wanted:
    """How a search is run."""

    device: str
    evaluations: int
    seconds: float
    workers: int
    seed: int
    emitters: tuple[str, ...]


async def run(name: str, wanted: Wanted, folder: Path) -> dict[str, Any]:
    """Search over one shape; a row."""
    operator = load_operator(name)
    shape = {"dims": SHAPES[name], "weight": 1.0}
    document = operator.model_dump(mode="json") | {"shapes": [shape]}
    settings = Settings(data_dir=folder, local_workers=wanted.workers, in_flight_per_search=3 * wanted.workers)
    coordinator = await Coordinator.open(settings)
    try:
        request = SearchRequest(
            operator=document,
            devices=(wanted.device,),
            budget=wanted.evaluations,
            seed=wanted.seed,
            emitters=wanted.emitters,
        )
        search = await coordinator.submit(request)
        begun = time.monotonic()
        started = None
        while search.state not in (SearchState.DONE, SearchState.FAILED):
            await asyncio.sleep(POLL_S)
            search = await coordinator.store.searches.get(search.id)
            if started is None and search.state is SearchState.RUNNING:
                started = time.monotonic()
            if started is not None and time.monotonic() - started > wanted.seconds:
                search = await coordinator.stop(search.id)
                break
        ended = time.monotonic()
        best = await coordinator.store.elites.best(search.id, wanted.device)
        progress = await coordinator.store.elites.progress(search.id, wanted.device, 240)
        row: dict[str, Any] = {
            "operator": name,
            "shape": ",".join(f"{key}={size}" for key, size in sorted(SHAPES[name].items())),
            "state": search.state.value,
            "reason": search.reason,
            "evaluations": progress.evaluations,
            "correct": progress.correct,
            "elites": progress.elites,
            "ready_s": None if started is None else round(started - begun, 1),
            "search_s": None if started is None else round(ended - started, 1),
            "seed": wanted.seed,
            "emitters": wanted.emitters,
        }
        if best is not None:
            candidate = await coordinator.store.candidates.get(best.candidate)
            bundle = Bundle.model_validate_json((await coordinator.store.bundles.get(best.bundle)).document)
            row |= {
                "objective": best.objective,
                "archive_low": best.low,
                "archive_mid": best.mid,
                "archive_high": best.high,
                "source": candidate.source,
                "configuration": bundle.configuration,
            }
    finally:
        await coordinator.close()
    if best is not None:
        searched = Operator.model_validate(document)
        graphs = [Graph.model_validate(graph) for graph in search.graphs]
        row |= _figures(searched, graphs, bundle, wanted.device)
    return row


def _figures(operator: Operator, graphs: list[Graph], bundle: Bundle, device: str) -> dict[str, Any]:
    """Times of the kernel and of all baselines, interleaved in one run."""
    found = measure_baselines(operator, graphs, bundle.reduced(), Device.parse(device), 0, None, {})
    baseline: Baseline = next(iter(found.values()))
    best = baseline.best()
    figures = baseline.figures
    dims = operator.shapes[0].dims
    floor_us = operator.input_bytes(dims) / TARGETS[Device.parse(device).target].dram_bytes_per_s * 1e6
    return {
        "reef_us": baseline.pacer_us,
        "reef_low_us": baseline.pacer_us * (1 - baseline.pacer_half_width),
        "reef_high_us": baseline.pacer_us * (1 + baseline.pacer_half_width),
        **{f"{key}_us": figure.time_us for key, figure in figures.items()},
        "over_best": best.over_pacer if best else None,
        "over_best_half_width": best.half_width if best else None,
        "floor_us": floor_us,
        "skipped": baseline.skipped,
    }


def main() -> None:
    """Run all searches; every finished one is written at once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", default=",".join(SHAPES))
    parser.add_argument("--device", default="h200")
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=3.0, help="for each search, from when its baselines are known")
    parser.add_argument("--workers", type=int, default=14, help="that trace")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--emitters", default="tune,rewrite,cross", help="names with commas")
    parser.add_argument("--out", type=Path, help="a folder to write the rows to as they come, besides the results")
    options = parser.parse_args()
    emitters = tuple(options.emitters.split(","))
    wanted = Wanted(options.device, options.evaluations, options.minutes * 60, options.workers, options.seed, emitters)
    rows = []
    for name in options.operators.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row = {"operator": name, "failed": True}
            with contextlib.suppress(SystemExit):
                row = asyncio.run(run(name, wanted, Path(folder)))
            log = Path(folder) / "workers.log"
            if options.out is not None and log.exists():
                (options.out / f"{name}.workers.log").write_text(log.read_text(errors="replace")[-200_000:])
        rows.append(row)
        print({key: value for key, value in row.items() if key != "source"}, flush=True)
        if options.out is not None:
            (options.out / "searches.json").write_text(json.dumps(rows, indent=1))
    print(write("searches", rows))


if __name__ == "__main__":
    main()
