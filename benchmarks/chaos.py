"""Jobs while everything dies: no result lost, none counted twice, every search ends.

Two coordinators and eight workers, each coordinator and each pair of workers on a host of its own (a network
namespace), PostgreSQL, and a Redis server that sometimes loses all it held. At random moments one of them is killed and
started again after a while, or a host's cable is pulled. Benches are stand-ins, so every verdict is known beforehand.
There is a run for each of `--devices`. On `h200` benches answer as a card does: cells are held provisionally, and
some confirms fail. `held` counts offers that held a cell without a confirm, `confirmed` confirms that won the cell.
`slower` and `withdrawn` count confirms that gave the cell back: the challenger was no faster, or it was wrong.
`left` counts cells that are still held when all searches have ended.

    python -m benchmarks.chaos --jobs 10000
"""

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from archive.errors import ArchiveError
from archive.records import SEED_EMITTER, WON, CandidateRecord, CandidateState, Placement, PlacementRecord, SearchState
from archive.store import Store, migrate
from benchmarks.cluster import NetworkNamespaces, PostgresServer, RedisServer, RestartableProcess
from benchmarks.record import write
from benchmarks.stub_worker import DEVICE, LUCKY, is_refuted, kind_of, outcome_of, spec, time_us
from kernelreef.states import ENDED
from service.evaluation.finalists import FINALISTS, finalists
from service.evaluation.jobs import FINAL
from service.operators.sources import digest
from workers.protocol import PRACTICAL_MARGIN, Device, Outcome, Report

COORDINATORS = ("c0", "c1")
WORKER_HOSTS = ("w0", "w1", "w2", "w3")
WORKERS_A_HOST = 2
PORT = 8700
DEVICES = (DEVICE, "h200")
BUDGET = 125
"""Candidates of a search, each traced once and judged once; the best are examined when it ends."""
PAUSE_S = (4.0, 12.0)
"""Seconds between two deeds, drawn."""
POST = """
import json, sys, time, urllib.request
url, device, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])
for spec in json.loads(sys.stdin.read()):
    body = {"operator": spec, "devices": [device], "evaluations": budget}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    print(json.loads(urllib.request.urlopen(request, timeout=60).read())["id"])
"""
READY = """
import sys, time, urllib.request
for attempt in range(600):
    try:
        sys.exit(urllib.request.urlopen(sys.argv[1], timeout=5).status != 200)
    except OSError:
        time.sleep(0.1)
sys.exit(1)
"""


class ChaosCluster:
    """Everything that runs."""

    def __init__(
        self, folder: Path, *, worker_hosts: int = len(WORKER_HOSTS), pause_ms: float = 0, device: str = DEVICE
    ) -> None:
        self.folder, self.device = folder, device
        self.network = NetworkNamespaces((*COORDINATORS, *WORKER_HOSTS[:worker_hosts]))
        self.redis = RedisServer(folder / "redis", self.network.address)
        self.postgres = PostgresServer(folder / "postgres", self.network.address)
        self.notes = folder / "jobs"
        self.notes.touch()
        self.coordinators = {host: self._coordinator(place, host) for place, host in enumerate(COORDINATORS)}
        self.workers = {
            f"{host}-{number}": self._worker(host, f"{host}-{number}", pause_ms)
            for host in WORKER_HOSTS[:worker_hosts]
            for number in range(WORKERS_A_HOST)
        }

    async def open(self) -> Store:
        """Start everything; returns a way into the archive."""
        for server in (self.redis, self.postgres):
            server.start()
        await migrate(self.postgres.url)
        for each in (*self.coordinators.values(), *self.workers.values()):
            each.start()
        for place, host in enumerate(COORDINATORS):
            self.ask(host, READY, f"http://127.0.0.1:{self._port(place)}/readyz")
        return await Store.open(self.postgres.url)

    def close(self) -> None:
        """Kill everything."""
        for each in (*self.coordinators.values(), *self.workers.values(), self.redis, self.postgres):
            each.kill()
        self.network.close()

    def submit(self, host: str, names: list[str], budget: int = BUDGET) -> list[str]:
        """Ask a coordinator for one search a name; returns their ids."""
        url = f"http://127.0.0.1:{self._port(COORDINATORS.index(host))}/api/v1/searches"
        return self.ask(host, POST, url, self.device, str(budget), said=json.dumps([spec(name) for name in names]))

    def ask(self, host: str, program: str, *arguments: str, said: str = "") -> list[str]:
        """Run a program on a host; returns the lines it prints."""
        command = [*self.network.on(host), sys.executable, "-c", program, *arguments]
        return subprocess.run(command, input=said, check=True, capture_output=True, text=True).stdout.split()

    def executions(self) -> Counter[str]:
        """Count the executions of each job."""
        return Counter(self.notes.read_text().split())

    def _coordinator(self, place: int, host: str) -> RestartableProcess:
        environment = {
            "REEF_DATABASE_URL": self.postgres.url,
            "REEF_REDIS_URL": self.redis.url,
            "REEF_DATA_DIR": str(self.folder / host),
            "REEF_LOCAL_WORKERS": "0",
        }
        reef = (sys.executable, "-c", "from service.cli import main; main()")
        command = [*reef, "serve", "--host", "127.0.0.1", "--port", str(self._port(place))]
        return RestartableProcess([*self.network.on(host), *command], self.folder / f"{host}.log", environment)

    def _worker(self, host: str, name: str, pause_ms: float) -> RestartableProcess:
        command = [sys.executable, "-m", "benchmarks.stub_worker", self.redis.url, name, str(self.notes), str(pause_ms)]
        command += [self.device]
        return RestartableProcess([*self.network.on(host), *command], self.folder / f"{name}.log")

    def _port(self, place: int) -> int:
        return PORT if self.network.real else PORT + 1 + place


class FaultInjector:
    """Breaks a scene, one thing after the other.

    Attributes:
        done: How often each thing was done.
    """

    def __init__(self, scene: ChaosCluster, rng: random.Random, pause_s: tuple[float, float]) -> None:
        self._scene = scene
        self._rng = rng
        self._pause_s = pause_s
        self.done: Counter[str] = Counter()

    async def run(self) -> None:
        """Go on until cancelled; what is broken is mended on the way out."""
        deeds: list[tuple[int, Callable[[], Awaitable[str]]]] = [
            (8, self._worker),
            (4, self._coordinator),
            (3, self._redis),
            (2, self._postgres),
            (4, self._cut if self._scene.network.real else self._worker),
        ]
        while True:
            await asyncio.sleep(self._rng.uniform(*self._pause_s))
            self.supervise()
            deed = self._rng.choices([deed for _, deed in deeds], [weight for weight, _ in deeds])[0]
            self.done[await deed()] += 1

    def supervise(self) -> None:
        """Start what gave up by itself, because it was started while another was away."""
        for process in (*self._scene.coordinators.values(), *self._scene.workers.values()):
            if not process.runs:
                process.start()
                self.done["started again"] += 1

    async def _worker(self) -> str:
        await self._restart(self._rng.choice(list(self._scene.workers.values())), 0.5)
        return "workers killed"

    async def _coordinator(self) -> str:
        await self._restart(self._rng.choice(list(self._scene.coordinators.values())), self._rng.uniform(0.5, 9.0))
        return "coordinators killed"

    async def _redis(self) -> str:
        forgets = self._rng.random() < 0.5
        await self._restart(self._scene.redis, 1.0, self._scene.redis.forget if forgets else None)
        return "Redis killed, and everything in it lost" if forgets else "Redis killed"

    async def _postgres(self) -> str:
        await self._restart(self._scene.postgres, 1.0)
        return "PostgreSQL killed"

    async def _cut(self) -> str:
        host = self._rng.choice([*COORDINATORS, *{name.partition("-")[0] for name in sorted(self._scene.workers)}])
        self._scene.network.cut(host)
        try:
            await asyncio.sleep(self._rng.uniform(2.0, 9.0))
        finally:
            self._scene.network.mend(host)
        return "cables pulled"

    async def _restart(
        self, process: RestartableProcess, away_s: float, meanwhile: Callable[[], None] | None = None
    ) -> None:
        await asyncio.to_thread(process.kill)
        if meanwhile is not None:
            meanwhile()
        try:
            await asyncio.sleep(away_s)
        finally:
            process.start()


async def hand_over_s(scene: ChaosCluster, store: Store, name: str, budget: int = BUDGET) -> float:
    """Kill the coordinator that runs a search; seconds until another one has a further candidate of it judged."""
    (search,) = scene.submit(COORDINATORS[0], [name], budget)
    before = await _holder(store, search)
    while (await store.candidates.count(search)).evaluated < 10:
        await asyncio.sleep(0.05)
    if await _holder(store, search) != before:
        print(f"{name} changed hands by itself: this machine is too busy; once more", flush=True)
        return await hand_over_s(scene, store, f"{name}x", budget)
    await asyncio.to_thread(scene.coordinators[COORDINATORS[0]].kill)
    killed, judged = time.monotonic(), (await store.candidates.count(search)).evaluated
    while await _holder(store, search) == before:  # Who takes over may be done before it is seen to hold the search.
        await asyncio.sleep(0.02)
    while (await store.candidates.count(search)).evaluated == judged:
        await asyncio.sleep(0.02)
    took = time.monotonic() - killed
    scene.coordinators[COORDINATORS[0]].start()
    scene.ask(COORDINATORS[0], READY, f"http://127.0.0.1:{PORT if scene.network.real else PORT + 1}/readyz")
    return took


async def _holder(store: Store, search: str) -> str:
    tenure = await store.search_leases.get(search)
    return "" if tenure is None else tenure.holder


async def finish(store: Store, searches: list[str], limit_s: float) -> dict[str, SearchState]:
    """Wait until every search has ended and its finalists are examined; their states."""
    deadline = time.monotonic() + limit_s
    states: dict[str, SearchState] = {}
    said = time.monotonic()
    while time.monotonic() < deadline:
        try:
            found = [await store.searches.get(id) for id in searches]
            states = {each.id: each.state for each in found}
            if all(each.state in ENDED and not each.finishing for each in found):
                return states
            if time.monotonic() - said > 15:
                said = time.monotonic()
                judged = sum([(await store.candidates.count(id)).evaluated for id in searches])
                print(f"{judged} candidates judged, {Counter(states.values())}", flush=True)
        except ArchiveError:
            pass
        await asyncio.sleep(1.0)
    return states


async def audit(store: Store, searches: list[str], budget: int, device: str = DEVICE) -> dict[str, int]:
    """Compare the archive with what must be in it: of each candidate one verdict, of the best one examination too."""
    found: Counter[str] = Counter(lost=0, twice=0, wrong=0, examined=0, given_up=0, unfinished=0)
    for search in searches:
        if (await store.searches.get(search)).state not in ENDED:
            found["unfinished"] += 1
            continue
        candidates = await store.candidates.list(search, limit=10 * budget)
        counts = await store.candidates.count(search)
        progress = await store.elites.progress(search, device, 1)
        found["lost"] += sum(candidate.state is not CandidateState.JUDGED for candidate in candidates)
        found["lost"] += abs(budget - len(candidates))
        judged = sum(candidate.state is CandidateState.JUDGED for candidate in candidates)
        found["twice"] += abs(counts.evaluated - judged) + abs(progress.evaluated - judged)
        found["twice"] += len(candidates) - len({digest(candidate.source) for candidate in candidates})
        for candidate in candidates:
            documents = await store.reports.of_candidate(candidate.id)
            reports = [Report.model_validate_json(document) for document in documents]
            # Each incumbent that a kernel meets is a confirm of its own, with a job of its own.
            kinds = Counter(report.job if report.kind == "confirm" else report.kind for report in reports)
            found["results"] += kinds["measure"]
            found["examined"] += kinds[FINAL]
            found["confirms"] += sum(report.kind == "confirm" for report in reports)
            found["lost"] += not kinds["measure"]
            found["twice"] += sum(times - 1 for times in kinds.values())
            found["wrong"] += candidate.outcome not in (None, _expected(candidate, reports).value)
            found["given_up"] += any(report.outcome is Outcome.WORKER_LOST for report in reports)
        found.update(await _audit_cells(store, search, device, candidates))  # `+=` would drop zeros.
    return dict(found)


def _expected(candidate: CandidateRecord, reports: Sequence[Report]) -> Outcome:
    """Return the verdict that a candidate must have: one that was confirmed may be refuted."""
    refuted = any(report.kind == "confirm" for report in reports) and is_refuted(candidate.source)
    return Outcome.WRONG_RESULT if refuted else outcome_of(candidate.source)


async def _audit_cells(store: Store, search: str, device: str, candidates: Sequence[CandidateRecord]) -> Counter[str]:
    """Compare a search's cells with its history: holders are right and the best, and none took a cell twice."""
    found: Counter[str] = Counter()
    measured, right = Device.parse(device).measures, {each.id for each in candidates if each.outcome == "correct"}
    best = await store.elites.top(search, device, 1, FINALISTS)
    results = await finalists(store, best)
    found["lost"] += sum(result.standing == "unexamined" for result in results.values())
    offers = await store.elites.history(search, device, limit=100 * len(candidates))
    won = [offer for offer in offers if offer.placement in WON]
    counted = offers if not measured else won
    found["twice"] += len(counted) - len({offer.candidate for offer in counted})
    elites, held = await store.elites.list(search, device, 1), await store.provisional.list(search, device, 1)
    found["twice"] += abs(sum(elite.revision for elite in elites) - len(won))
    found["left"] += len(held)
    found.update(_ways_of_cells(offers))
    if not measured:
        return found
    holders = {each.cell: each for each in elites} | {each.cell: each for each in held}
    found["wrong"] += sum(each.candidate not in right for each in holders.values())
    # The reference seed is at first compared with itself; its confirm lowers that figure, after others were compared
    # with it. So nothing is said of cells that it was in.
    seeds = {each.id for each in candidates if each.emitter == SEED_EMITTER}
    lucky = {each.id for each in candidates if kind_of(each.source) == LUCKY}
    skipped = {offer.cell for offer in offers if offer.candidate in seeds}
    for offer in offers:
        if offer.cell in skipped:
            continue
        if offer.candidate in lucky and ":confirm:" not in offer.job:
            continue
        holder = holders.get(offer.cell)
        beaten = holder is not None and offer.low <= holder.mid * (1 + PRACTICAL_MARGIN)
        found["lost"] += offer.candidate in right and not beaten
    # All times but the reference seed's are relative to one pacer. A first measurement of lucky kernels is too high.
    confirmed = [each for each in elites if each.candidate not in seeds]
    measured_well = [each for each in held if each.candidate not in seeds | lucky]
    paces = {round(each.mid * time_us(each.bundle), 6) for each in (*confirmed, *measured_well)}
    found["wrong"] += max(0, len(paces) - 1)
    return found


def _ways_of_cells(offers: Sequence[PlacementRecord]) -> Counter[str]:
    """Count the ways in which cells changed their holder."""
    confirms = [offer for offer in offers if ":confirm:" in offer.job]
    placed = Counter(offer.placement for offer in confirms)
    return Counter(
        held=sum(offer.placement is Placement.PROVISIONAL for offer in offers),
        confirmed=placed[Placement.NEW] + placed[Placement.IMPROVED],
        slower=placed[Placement.REJECTED],
        withdrawn=placed[Placement.WITHDRAWN],
    )


async def run(
    jobs: int,
    seed: int,
    *,
    pause_s: tuple[float, float],
    limit_s: float,
    hand_overs: int,
    logs: Path | None = None,
    device: str = DEVICE,
) -> dict[str, Any]:
    """One run; what came of it."""
    with tempfile.TemporaryDirectory(prefix="reef-chaos-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        scene = ChaosCluster(folder, device=device)
        try:
            return await _run(scene, jobs, seed, pause_s, limit_s, hand_overs)
        except subprocess.CalledProcessError:
            for host in COORDINATORS:
                print(host, (folder / f"{host}.log").read_text()[-2_000:], file=sys.stderr)
            raise
        finally:
            scene.close()
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                for log in folder.glob("*.log"):
                    shutil.copy(log, logs)


async def _run(
    scene: ChaosCluster, jobs: int, seed: int, pause_s: tuple[float, float], limit_s: float, hand_overs: int
) -> dict[str, Any]:
    store = await scene.open()
    took_s = [round(await hand_over_s(scene, store, f"handed{number}"), 2) for number in range(hand_overs)]
    print("hand-overs, s:", took_s, flush=True)
    number = max(2, round(jobs / 2 / BUDGET))
    budget = min(BUDGET, max(8, jobs // 2 // number))
    names = [f"double{place}" for place in range(number)]
    before = scene.executions().keys()
    began = time.monotonic()
    searches = scene.submit(COORDINATORS[0], names[::2], budget) + scene.submit(COORDINATORS[1], names[1::2], budget)
    chaos = FaultInjector(scene, random.Random(seed), pause_s)
    breaking = asyncio.create_task(chaos.run())
    try:
        states = await finish(store, searches, limit_s)
    finally:
        breaking.cancel()
        await asyncio.gather(breaking, return_exceptions=True)
    duration_s = time.monotonic() - began
    done = scene.executions()
    ours = {job: times for job, times in done.items() if job not in before}
    verdict = await audit(store, searches, budget, scene.device)
    await store.close()
    return {
        "device": scene.device,
        "network": "namespaces" if scene.network.real else "loopback, nothing cut",
        "searches": len(searches),
        "candidates": len(searches) * budget,
        "ended": Counter(state.value for state in states.values() if state in ENDED),
        "duration_s": round(duration_s, 1),
        "jobs": len(ours),
        "executions": sum(ours.values()),
        **verdict,
        "deeds": dict(chaos.done),
        "hand_over_s": took_s,
    }


def main() -> None:
    """Run and write `results/chaos.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--hand-overs", type=int, default=3)
    options.add_argument("--limit-s", type=float, default=1_800)
    options.add_argument("--pause-s", type=float, nargs=2, default=PAUSE_S, help="between two deeds: least and most")
    options.add_argument("--calm", action="store_true", help="break nothing")
    options.add_argument("--logs", type=Path, help="where to leave the logs")
    options.add_argument("--devices", nargs="+", default=DEVICES, help="a run each, one after the other")
    options.add_argument("--dry", action="store_true", help="write no file")
    chosen = options.parse_args()
    rows: list[dict[str, Any]] = []
    for device in chosen.devices:
        row = asyncio.run(
            run(
                chosen.jobs,
                chosen.seed,
                pause_s=(1e9, 1e9) if chosen.calm else tuple(chosen.pause_s),
                limit_s=chosen.limit_s,
                hand_overs=chosen.hand_overs,
                logs=chosen.logs,
                device=device,
            )
        )
        rows.append(row)
        print(json.dumps(row, indent=1), flush=True)
        if not chosen.dry:
            print(write("chaos", rows))


if __name__ == "__main__":
    main()
