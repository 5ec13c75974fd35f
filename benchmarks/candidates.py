"""Seconds per candidate by stage, and candidates an hour, of whole searches on a `model` device.

Runs real searches with the embedded defaults, each in an archive of its own, and reads the stages out of the archive.
`queue` is what is left of a candidate's life after all stages: waiting in streams, transport, the database.

    python -m benchmarks.candidates --operators rmsnorm,softmax --evaluations 200
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from archive.records import CandidateRecord, SearchState
from benchmarks.record import write
from service.coordinator import Coordinator
from service.requests import SearchRequest
from service.settings import Settings
from workers.protocol import Report

STAGES = ("trace", "compile", "assemble", "jail", "interpret", "check", "predict")


async def run(operator: str, evaluations: int, workers: int, seed: int) -> dict[str, Any]:
    """Run one search; a row of medians and 90th percentiles in seconds, and the rate while it ran."""
    with tempfile.TemporaryDirectory() as folder:
        coordinator = await Coordinator.open(Settings(data_dir=Path(folder), local_workers=workers))
        try:
            started = time.monotonic()
            search = await coordinator.submit(SearchRequest(operator=operator, budget=evaluations, seed=seed))
            running = None
            while search.state not in (SearchState.DONE, SearchState.FAILED):
                await asyncio.sleep(0.05)
                search = await coordinator.store.searches.get(search.id)
                if running is None and search.state is SearchState.RUNNING:
                    running = time.monotonic()
            ended = time.monotonic()
            if search.state is SearchState.FAILED or running is None:
                raise SystemExit(f"{operator}: {search.reason}")
            candidates = await coordinator.store.candidates.list(search.id, limit=evaluations)
            stages = [await _stages(coordinator, candidate) for candidate in candidates]
            best = await coordinator.store.elites.best(search.id, search.devices[0])
        finally:
            await coordinator.close()
    return {
        "operator": operator,
        "evaluations": len(candidates),
        "correct": sum(candidate.outcome == "correct" for candidate in candidates),
        "workers": workers,
        "ready_s": round(running - started, 2),
        "search_s": round(ended - running, 2),
        "candidates_per_h": round(3600 * (len(candidates) - 1) / (ended - running)),
        "best_predicted_speedup": round(best.objective, 3) if best else None,
        "median_s": {name: _quantile([row.get(name, 0.0) for row in stages], 50) for name in STAGES},
        "p90_s": {name: _quantile([row.get(name, 0.0) for row in stages], 90) for name in STAGES},
    }


async def _stages(coordinator: Coordinator, candidate: CandidateRecord) -> dict[str, float]:
    seconds = dict(candidate.stages_s)
    for document in await coordinator.store.reports.of_candidate(candidate.id):
        for stage, spent in Report.model_validate_json(document).stages_s.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    return seconds


def _quantile(values: list[float], percent: int) -> float:
    if len(values) < 2:
        return round(values[0], 4)
    return round(statistics.quantiles(values, n=100)[percent - 1], 4)


def main() -> None:
    """Run and write `results/candidates.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--operators", default="rmsnorm")
    options.add_argument("--evaluations", type=int, default=200)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    rows = []
    for operator in chosen.operators.split(","):
        rows.append(asyncio.run(run(operator, chosen.evaluations, chosen.workers, chosen.seed)))
        print(rows[-1])
    print(write("candidates", rows))


if __name__ == "__main__":
    main()
