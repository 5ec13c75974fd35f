"""Rows of exported packages from nothing: search, export and check several operators on one card within a time limit.

    python -m benchmarks.exported_session --out results --state /tmp/session --limit-s 560
    python -m benchmarks.exported_session --out results --state /tmp/session --device model:sm_90    without a card

One service searches (`reef serve`); `reef export` and `exported_card` run beside it as soon as a search has ended.
Operators are searched in the order given, some at once. `results` gets, whenever something is known:

- `rows.json`: the rows of `exported_card`, and `searches` and `exports` with what each took;
- `session.jsonl`: all steps with their seconds;
- `packages.tar.xz` at the end: the packages, with the sources of their elites.

`--rivals` names operators whose packages are then timed at shapes of their own (`--rival-shapes` each): a further
search at each of these shapes alone, whose best kernel is timed beside the package. A session that is started again
with the same state goes on with what is left. Searches are stopped at their evaluations or seconds, so that finalists
are not examined: the export judges every function of a package anyway.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelreef import AsyncReef
from kernelreef.models import Search
from kernelreef.states import ENDED
from service.discovery import find_service
from service.errors import ServiceError
from service.export.sampling import is_small_enough, pool
from service.operators.catalogue import load_operator
from workers import driver
from workers.gpu_lock import FOLDER, GpuLock
from workers.protocol import Operator

ROOT = Path(__file__).parents[1]
OPERATORS = (
    "rmsnorm",
    "softmax",
    "matmul",
    "cross_entropy",
    "paged_decode",
    "w4a16_matmul",
    "attention",
    "examples/relu2_gate",
)
RIVALS = ("rmsnorm", "softmax", "matmul", "cross_entropy")
POLL_S = 0.3
REGISTERED_S = 90.0
"""Seconds until a worker of the device must have registered."""
LEAST_S = 20.0
"""Seconds before the limit after which nothing new is begun."""
END_S = 12.0
"""Seconds before the limit at which all that still runs is ended: packing takes some of them."""
RIVALS_S = 100.0
"""Seconds before the limit at which packages are timed beside the rivals that are known by then."""
LATE_S = 50.0
"""Seconds before the limit at which those packages are timed beside their rivals that were not done before."""
ROW_CORES = 4
"""Cores that only the checks of packages have, so that host times are not those of a busy core."""
MEMORY_SHARE = 0.2
LEAST_BYTES = 2**20
"""Minimum bytes of all inputs at a shape of a rival."""


@dataclass(frozen=True)
class PlannedSearch:
    """One search to make: an operator, and the sizes of a rival's only shape; None for the operator's own shapes."""

    operator: Operator
    sizes: dict[str, int] | None = None


class Notes:
    """Steps of the session, and all rows so far.

    Args:
        out: Folder of the results.
        state: Folder of the session.
    """

    def __init__(self, out: Path, state: Path) -> None:
        self._out, self._state, self._began = out, state, time.monotonic()
        out.mkdir(parents=True, exist_ok=True)

    def say(self, step: str, **said: Any) -> None:
        """Note a step, and write all that is known."""
        line = json.dumps({"at_s": round(time.monotonic() - self._began, 1), "step": step, **said})
        print(line[:600], flush=True)
        with (self._out / "session.jsonl").open("a") as file:
            file.write(line + "\n")
        rows = [json.loads(path.read_text()) for path in sorted((self._state / "rows").glob("*.json"))]
        told = [json.loads(path.read_text()) for path in sorted((self._state / "told").glob("*.json"))]
        part = self._out / "rows.part"
        part.write_text(json.dumps({"rows": rows, "told": told}, indent=1) + "\n")
        part.replace(self._out / "rows.json")

    def keep(self, name: str, told: dict[str, Any]) -> None:
        """Keep what is known of a search or an export."""
        (self._state / "told" / f"{name}.json").write_text(json.dumps({"name": name, **told}))
        self.say(name, **told)


class Session:
    """Chains of search, export and checks on one card.

    Args:
        asked: Options.
        reef: Client of the service.
        notes: Notes.
    """

    def __init__(self, asked: argparse.Namespace, reef: AsyncReef, url: str, notes: Notes) -> None:
        self._asked, self._reef, self._url, self._notes = asked, reef, url, notes
        self._exports, self._rows = asyncio.Semaphore(asked.exports), asyncio.Semaphore(asked.row_processes)
        self._left = asked.turns
        self._after: set[asyncio.Task[None]] = set()
        self._compared: set[str] = set()

    @property
    def left_s(self) -> float:
        """Seconds until the limit."""
        left_s: float = self._asked.until - time.monotonic()
        return left_s

    async def run(self) -> None:
        """Do all that there is time for."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._asked.searches):
                group.create_task(self._searching())
        while self._after:
            done, self._after = await asyncio.wait(self._after, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if error := task.exception():
                    self._notes.say("failed", reason=repr(error)[:500])

    async def end(self) -> None:
        """End all that still runs."""
        for task in self._after:
            task.cancel()
        await asyncio.gather(*self._after, return_exceptions=True)

    async def _searching(self) -> None:
        while self._left and self.left_s > LEAST_S:
            turn = self._left.pop(0)
            name = turn.operator.name
            if turn.sizes is not None and self.left_s < RIVALS_S + LEAST_S:
                continue
            try:
                found = None if self._package(name).exists() and turn.sizes is None else await self._search(turn)
            except ServiceError as error:
                self._notes.say("search failed", operator=name, reason=str(error)[:500])
                continue
            if turn.sizes is None and (found is not None or self._package(name).exists()):
                self._after.add(asyncio.create_task(self._follow(turn.operator, found)))

    async def _search(self, turn: PlannedSearch) -> str | None:
        """Search, and return the id of the search once it has its evaluations or seconds; None without an elite."""
        asked, name = self._asked, turn.operator.name
        most = asked.evaluations if turn.sizes is None else asked.rival_evaluations
        seconds = asked.search_s if turn.sizes is None else asked.rival_s
        document = {**turn.operator.model_dump(mode="json"), "baselines": []}
        if turn.sizes is not None:
            document["shapes"] = [{"dims": turn.sizes}]
        began = time.monotonic()
        search = await self._submitted(document, most + 1000)
        while True:
            await asyncio.sleep(POLL_S)
            progress = await self._reef.progress(search.id)
            is_over = progress.evaluated >= most or (progress.running_s or 0.0) >= seconds
            if progress.state in ENDED or is_over or self.left_s < LEAST_S:
                break
        with contextlib.suppress(ServiceError):  # It may have ended by itself.
            await self._reef.stop(search.id)
        best, base = await self._reef.best(search.id), (await self._reef.archive(search.id)).relative_to
        told = {
            "operator": name,
            "evaluated": progress.evaluated,
            "running_s": progress.running_s,
            "wall_s": round(time.monotonic() - began, 1),
            "device": search.devices[0],
            "state": progress.state,
            "reason": progress.reason,
            "speedup": None if best is None else best.speedup.model_dump(),
            "relative_to": base,
        }
        if turn.sizes is None:
            self._notes.keep(f"search_{name}", told)
        else:
            await self._keep_rival(turn, search.id, told)
        return None if best is None else search.id

    async def _submitted(self, document: dict[str, Any], evaluations: int) -> Search:
        """Submit a search, again as long as no worker of the device has registered."""
        until = time.monotonic() + REGISTERED_S
        while True:
            try:
                return await self._reef.submit(document, devices=[self._asked.device], evaluations=evaluations)
            except ServiceError as error:
                if time.monotonic() > until:
                    raise
                self._notes.say("waiting for a worker", reason=str(error)[:200])
                await asyncio.sleep(3.0)

    async def _keep_rival(self, turn: PlannedSearch, search: str, told: dict[str, Any]) -> None:
        """Keep the fastest kernel of a search that does not tune itself: that could not be timed in a graph."""
        key = ",".join(f"{name}={size}" for name, size in (turn.sizes or {}).items())
        seen = 0
        async for elite in self._reef.elites(search):
            seen += 1
            candidate = await self._reef.candidate(elite.candidate)
            if candidate.source and "autotune" not in candidate.source:
                told |= {"place": seen, "emitter": elite.emitter}
                rival = {"operator": turn.operator.name, "sizes": turn.sizes, "source": candidate.source, **told}
                path = self._asked.state / "rivals" / f"{turn.operator.name}_{key.replace(',', '_')}.json"
                path.write_text(json.dumps(rival))
                break
        self._notes.keep(f"rival_{turn.operator.name}_{key.replace(',', '_')}", told)

    async def _follow(self, operator: Operator, search: str | None) -> None:
        """Export a search, and check the package."""
        name = operator.name
        if search is not None:
            async with self._exports:
                if self.left_s < LEAST_S or not await self._export(name, search):
                    return
        async with self._rows:
            if self.left_s > LEAST_S and not self._is_checked(name):
                await self._check(name)

    async def _export(self, name: str, search: str) -> bool:
        """Export a search with the sources of its elites. Returns True if there is a package."""
        began, part = time.monotonic(), self._asked.state / "parts" / f"{name}_{search}"
        command = ["-m", "kernelreef", "export", search, "--out", str(part), "--json", "--url", self._url]
        for operator, _, sizes in (each.partition(":") for each in self._asked.named):
            command += ["--shapes", sizes] if operator == name else []
        status, said = await self._called(command, self._asked.state / f"export_{name}.log")
        wall_s = round(time.monotonic() - began, 1)
        if status != 0:
            self._notes.keep(f"export_{name}", {"operator": name, "wall_s": wall_s, "failed": said[-1500:]})
            return False
        document, _ = json.JSONDecoder().raw_decode(said[said.index('{"search"') :])
        (part / "sources").mkdir()
        for certificate in part.glob("*/certificates/*.json"):
            if certificate.stem.endswith("_functions"):
                continue
            origin = json.loads(certificate.read_text())["origin"]["candidate"]
            candidate = await self._reef.candidate(origin)
            (part / "sources" / f"{certificate.stem}.py").write_text(candidate.source)
        readme = (part / "README.md").read_text().splitlines()
        told = {
            "operator": name,
            "wall_s": wall_s,
            "stages_s": document["stages_s"],
            "refusals": document["refusals"],
            "note": document["note"],
            "unsearched": [line for line in readme if " shapes that its search did not judge" in line],
            "loss": [line for line in readme if " against the best choice at each" in line or "is left out of" in line],
            "kernels": [line for line in readme if line.startswith("They launch")],
        }
        part.rename(self._package(name))
        self._notes.keep(f"export_{name}", told)
        return True

    async def _check(self, name: str) -> None:
        """Check and time a package."""
        asked, began = self._asked, time.monotonic()
        seconds = max(5.0, min(asked.check_s, self.left_s - LEAST_S))
        path = asked.state / "told" / f"search_{name}.json"
        told = json.loads(path.read_text())
        found = asked.provenance.format(evaluations=told["evaluated"], device=told["device"])
        command = ["benchmarks/exported_card.py", str(self._package(name)), *self._card_options(found)]
        command += ["--shapes", str(asked.shapes), "--seconds", f"{seconds:.0f}", "--timing-s", f"{asked.timing_s:.0f}"]
        status, said = await self._called(command, asked.state / f"check_{name}.log", row=True)
        self._notes.say("checked", operator=name, status=status, wall_s=round(time.monotonic() - began, 1))
        if status != 0:
            self._notes.keep(f"check_{name}", {"operator": name, "failed": said[-1500:]})

    async def compare(self) -> None:
        """Time those packages that were not timed yet beside the rivals that are known."""
        rivals = [json.loads(path.read_text()) for path in sorted((self._asked.state / "rivals").glob("*.json"))]
        ready = {each["operator"] for each in rivals if self._package(each["operator"]).exists()}
        names = sorted(ready - self._compared)
        self._compared.update(names)
        path = self._asked.state / "rivals.json"
        path.write_text(json.dumps(rivals))
        await asyncio.gather(*(self._compare(name, path) for name in names))

    async def _compare(self, name: str, rivals: Path) -> None:
        """Time a package beside its rivals."""
        options = self._card_options("each rival is the best kernel of a search at its shape alone")
        command = ["benchmarks/exported_card.py", str(self._package(name)), *options, "--rivals", str(rivals)]
        status, said = await self._called(command, self._asked.state / f"compare_{name}.log", row=True)
        failed = {} if status == 0 else {"failed": said[-1500:]}
        self._notes.keep(f"compare_{name}", {"operator": name, "status": status, **failed})

    def _card_options(self, provenance: str) -> list[str]:
        asked = self._asked
        options = ["--out", str(asked.state / "rows"), "--provenance", provenance, "--memory", str(MEMORY_SHARE)]
        if asked.lock:
            options += ["--lock", *map(str, asked.lock)]
        return options + ([] if asked.device == "cuda" else ["--device", "cpu"])

    def _package(self, name: str) -> Path:
        path: Path = self._asked.state / "packages" / name
        return path

    def _is_checked(self, name: str) -> bool:
        path = self._asked.state / "rows" / f"{name}.json"
        return path.exists() and "not_slower_share" in json.loads(path.read_text())["row"]

    async def _called(self, command: Sequence[str], log: Path, *, row: bool = False) -> tuple[int, str]:
        """Run a Python process in a group of its own. Returns its status and output; it ends with this task."""
        pinned = pinning(self._asked.row_cores if row else self._asked.service_cores)
        with log.open("w") as file:
            process = await asyncio.create_subprocess_exec(
                *pinned, sys.executable, *command, cwd=ROOT, stdout=file, stderr=file, start_new_session=True
            )
            try:
                status = await process.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return status, log.read_text(errors="replace")


@contextlib.asynccontextmanager
async def served(state: Path, cores: Sequence[int]) -> AsyncIterator[str]:
    """Serve a data folder of the session's own, and yield the address."""
    with (state / "serve.log").open("a") as file:
        process = await asyncio.create_subprocess_exec(
            *pinning(cores), sys.executable, "-m", "kernelreef", "serve", "--port", "0", stdout=file, stderr=file
        )
        try:
            while (url := find_service(Path(os.environ["REEF_DATA_DIR"]))) is None:
                if process.returncode is not None:
                    raise SystemExit(f"the service ended: {(state / 'serve.log').read_text()[-1500:]}")
                await asyncio.sleep(POLL_S)
            yield url
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), 3.0)
                except TimeoutError:
                    process.kill()


def pinning(cores: Sequence[int]) -> tuple[str, ...]:
    """Return the start of a command that runs on some cores alone; empty without cores."""
    return ("taskset", "-c", ",".join(map(str, cores))) if cores else ()


def turns_of(asked: argparse.Namespace) -> list[PlannedSearch]:
    """Return the searches to make, the most important first: each operator, then a first rival of each, and so on."""
    operators = [load_operator(str(ROOT / name) if "/" in name else name) for name in asked.operators]
    turns = [PlannedSearch(operator) for operator in operators]
    for at in range(asked.rival_shapes):
        for name in asked.rivals:
            operator = load_operator(name)
            sizes = unseen(operator, asked.rival_shapes)[at]
            key = "_".join(f"{dimension}={size}" for dimension, size in sizes.items())
            if not (asked.state / "rivals" / f"{operator.name}_{key}.json").exists():
                turns.append(PlannedSearch(operator, sizes))
    return turns


def unseen(operator: Operator, count: int) -> list[dict[str, int]]:
    """Draw shapes as an export does, but none so small that every kernel takes as long as a launch.

    An export measures at others: its operator has no baselines, so another digest.
    """
    return [
        sizes
        for sizes in pool(operator)
        if is_small_enough(operator, sizes) and operator.input_bytes(sizes) >= LEAST_BYTES
    ][:count]


def pack(state: Path, path: Path) -> None:
    """Pack the packages and what is known of the session, but not its archive."""
    with tarfile.open(path, "w:xz", preset=3) as file:
        for name in ("rows.json", "session.jsonl"):
            file.add(path.parent / name, name)
        for name in ("packages", "rows", "told", "rivals"):
            file.add(state / name, name)
        for log in sorted(state.glob("*.log")):
            if log.stat().st_size < 2**20:
                file.add(log, f"logs/{log.name}")


async def ended_in_time(session: Session, asked: argparse.Namespace, notes: Notes) -> None:
    """Run a session until its limit: rivals are compared when all is done, or shortly before the end."""

    async def all_done() -> None:
        running = asyncio.create_task(session.run())
        try:
            for before_s in (RIVALS_S, LATE_S) if asked.rivals else ():
                await asyncio.wait([running], timeout=max(0.0, session.left_s - before_s))
                await session.compare()
            await running
        finally:
            running.cancel()
            await session.end()

    try:
        await asyncio.wait_for(all_done(), max(1.0, session.left_s - END_S))
        notes.say("done")
    except TimeoutError:
        notes.say("out of time")


async def session(asked: argparse.Namespace) -> None:
    """Run a session."""
    notes = Notes(asked.out, asked.state)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # Children end with their tasks.
    async with served(asked.state, asked.service_cores) as url, AsyncReef(url) as reef:
        notes.say("serving", operators=asked.operators)
        async for search in reef.searches():
            if search.state not in ENDED:  # Of an earlier session with this state, which was killed.
                await reef.stop(search.id)
        asked.turns = turns_of(asked)
        try:
            await ended_in_time(Session(asked, reef, url, notes), asked, notes)
        finally:
            pack(asked.state, asked.out / "packages.tar.xz")
            notes.say("packed")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", nargs="*", default=OPERATORS, help="names, or folders, the first ones first")
    parser.add_argument("--rivals", nargs="*", default=RIVALS, help="operators with searches at further shapes")
    parser.add_argument("--rival-shapes", type=int, default=4)
    parser.add_argument("--named", nargs="*", default=(), help="further shapes to time, as matmul:M=8,N=64,K=16")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--search-s", type=float, default=45.0, help="maximum running seconds of a search")
    parser.add_argument("--rival-evaluations", type=int, default=100)
    parser.add_argument("--rival-s", type=float, default=20.0)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--check-s", type=float, default=150.0)
    parser.add_argument("--timing-s", type=float, default=50.0)
    parser.add_argument("--searches", type=int, default=3, help="at once")
    parser.add_argument("--exports", type=int, default=3, help="at once")
    parser.add_argument("--row-processes", type=int, default=3, help="at once")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit-s", type=float, default=560.0)
    parser.add_argument("--state", type=Path, required=True, help="folder of this session")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--provenance",
        default="elites of a search of {evaluations} evaluations on {device}, finalists not examined; "
        "functions judged and timed on this card",
    )
    return parser.parse_args()


def main() -> None:
    """Run a session within its limit."""
    asked = options()
    asked.until = time.monotonic() + asked.limit_s
    for name in ("packages", "parts", "rows", "told", "rivals", "data"):
        (asked.state / name).mkdir(parents=True, exist_ok=True)
    asked.state, asked.out = asked.state.resolve(), asked.out.resolve()
    os.environ["REEF_DATA_DIR"] = str(asked.state / "data")
    os.environ["REEF_REQUESTS_PER_S"] = "0"  # An export reads two hundred candidates.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"  # Its processes would take the cores that time calls.
    os.environ["TRITON_CACHE_DIR"] = str(asked.state / "triton")
    cores = sorted(os.sched_getaffinity(0))
    asked.row_cores = cores[-ROW_CORES:] if len(cores) > 2 * ROW_CORES else []
    asked.service_cores = cores[:-ROW_CORES] if asked.row_cores else []
    asked.lock = lock_files() if asked.device == "cuda" else []
    asyncio.run(session(asked))


def lock_files() -> list[Path]:
    """Return the files of the first card's lock, which services, exports and checks share."""
    address = driver.address_of(0)
    with contextlib.closing(GpuLock(address)):  # Makes them.
        card = re.sub(r"\W", "-", address)
        return [FOLDER / f"kernelreef-{card}-{name}.lock" for name in ("gate", "room")]


if __name__ == "__main__":
    main()
