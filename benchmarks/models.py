"""A language model against the rules: the same operators, seeds and card, at equal evaluations and at equal card time.

    python -m benchmarks.models search --data DATA --operators softmax FOLDER --device h100 --prompts 16  # 1. on a card
    python -m benchmarks.models prompts --data DATA --out questions     # 2. X.md; a model answers each in X.answer.md
    python -m benchmarks.models post --data DATA --out questions --model NAME                             # 3. anywhere
    python -m benchmarks.models search --data DATA --device h100 --prompts 16  # 4. on a card: judge, ask again; 2, 3
    python -m benchmarks.models rules --data RULES --operators softmax FOLDER --device h100               # 5. on a card
    python -m benchmarks.models conclude --data DATA --rules RULES --out results

A data folder holds one search per operator and goes on where it was left, on any machine. Searches have the card one
after the other. A search starts from the operator's first seed alone. Its model is the backend `manual`, so prompts
wait in the archive while no card is held.
`search` has all answers judged, and then opens prompts, which know of every verdict. Each answer must come from its
prompt alone.

`conclude` writes `models.json` and `models_answers.jsonl.xz`: every prompt and answer, as lines that the backend
`replay` reads. What `--out` knows of other operators stays. An operator has three rows: the model, and the rules after
as many evaluations and after as many device seconds, or fewer where `reached` is false. `best` is a lower bound over
the device's baseline, `over_seed` the median speedup over the seed. `replayed` answers came from prompts of an earlier
search; `benchmarks/models_again.py` has them judged again.
"""

import argparse
import asyncio
import json
import lzma
import math
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, select

from archive import tables
from archive.descriptors import coordinates
from archive.grid import Grid
from archive.records import WON, CandidateState, ExchangeState, SearchCounts, SearchRecord, SearchState
from archive.store import Store
from benchmarks.record import RESULTS, write
from kernelreef.states import ACTIVE, OPEN
from service.api.llm_stats import standings_of
from service.cli.in_process import serve_inside
from service.cli.prompts import answered_with, asked_of
from service.coordinator import Coordinator
from service.emitters.llm.strategies import CROSS, EXPLORE, IMPROVE, REPAIR, SCRATCH
from service.evaluation.promotion import first_benchmark
from service.evaluation.reports import device_ms
from service.llm.base import digest
from service.llm_gateway.schemas import Prompt, PromptSummary
from service.logs import configure
from service.open_archive import open_archive
from service.operators.catalogue import load_operator
from service.requests import LlmSettings, SearchRequest
from service.settings import DATABASE_FILE, Settings, usable_cores
from workers.protocol import Operator, Outcome, Report
from workers.protocol.kernelbench import takes_module

STRATEGIES = (SCRATCH, IMPROVE, EXPLORE, CROSS, REPAIR)
"""Strategies of the model. Templates and conversations need several evaluations or answers per prompt."""
RULES = ("tune", "rewrite", "cross")
EVALUATIONS = 100_000
"""Maximum number of evaluations of a search: it is ended from outside."""
WHILE_JUDGING = 4
"""Candidates in flight while answers are judged: few prompts are opened before all verdicts are known."""
POLL_S, QUIET_S, OPEN_S = 0.5, 3.0, 40.0
"""Seconds between two looks, without work until all counts as judged, and for opening prompts."""
BYTES_PER_TOKEN = 4.0
"""Estimate for answers without a count of tokens."""
RECORDING = "models_answers.jsonl.xz"
CANDIDATE = "candidate"
"""Outcome of an answer that is a candidate; its verdict comes later."""
RECORDED = "recorded"
"""Template of an exchange that an earlier search asked: `benchmarks/models_again.py` posts it with its answer."""

Row = dict[str, Any]


def request_of(spec: str, device: str, *, model: bool, seed: str = "", evaluations: int = EVALUATIONS) -> SearchRequest:
    """Return the search for an operator from a seed or its first one, compared with eager PyTorch."""
    given = load_operator(spec).model_dump(mode="json")
    given |= {"seeds": [seed] if seed else given["seeds"][:1], "baselines": []}
    return SearchRequest(
        operator=given,
        devices=(device,),
        evaluations=evaluations,
        emitters=("llm",) if model else RULES,
        llm=LlmSettings(backends=("manual",), strategies=STRATEGIES) if model else None,
        admit=True,
    )


def settings_of(data: Path, workers: int, in_flight: int | None) -> Settings:
    """Return the settings of a service on a data folder."""
    return Settings(data_dir=data, local_workers=workers, in_flight_per_search=in_flight, log_level="warning")


@asynccontextmanager
async def served(
    options: argparse.Namespace, requests: Sequence[SearchRequest], in_flight: int | None
) -> AsyncIterator[Coordinator]:
    """Run a service on the data folder, and submit the searches that it lacks."""
    settings = settings_of(options.data, options.workers, in_flight)
    configure(settings)
    coordinator = await Coordinator.open(settings, devices=(options.device,) if options.workers else ())
    try:
        known = [(each.operator_name, each.emitters) for each in await coordinator.store.searches.list(limit=200)]
        for request in requests:
            assert isinstance(request.operator, dict)
            if (request.operator["name"], request.emitters) not in known:
                await coordinator.submit(request)
        yield coordinator
    finally:
        await coordinator.close()


def requests_of(options: argparse.Namespace) -> list[SearchRequest]:
    """Return the searches that the options name."""
    model = options.action == "search"
    return [request_of(spec, options.device, model=model) for spec in options.operators]


async def search(options: argparse.Namespace) -> None:
    """Have all answers judged, then open prompts. New searches have no answers."""
    until, left = time.monotonic() + options.seconds, 0
    if (options.data / DATABASE_FILE).exists():
        async with served(options, requests_of(options), WHILE_JUDGING) as coordinator:
            store = coordinator.store
            async for each, end in turns(coordinator, until - (OPEN_S if options.prompts else 0.0)):
                await judged(store, each.id, end, options.linger)
            await told(store)
            counts = [await store.candidates.count(each.id) for each in await store.searches.list(limit=200)]
            left = max((each.in_flight for each in counts), default=0)
    if options.prompts:  # What has no verdict yet takes no prompt's place.
        async with served(options, requests_of(options), options.prompts + left) as coordinator:
            for each in await coordinator.store.searches.list(limit=200, states=(SearchState.PAUSED,)):
                await coordinator.resume(each.id)
            await opened(coordinator.store, options.prompts, until)
            await told(coordinator.store)


async def rules(options: argparse.Namespace) -> None:
    """Search by rules; a search pauses at its maximum of evaluations."""
    until = time.monotonic() + options.seconds
    async with served(options, requests_of(options), None) as coordinator:
        store = coordinator.store
        async for each, end in turns(coordinator, until):
            while time.monotonic() < end and (await store.candidates.count(each.id)).evaluated < options.evaluations:
                await asyncio.sleep(POLL_S)
        await told(store)


async def turns(
    coordinator: Coordinator, until: float, without: Collection[str] = ()
) -> AsyncIterator[tuple[SearchRecord, float]]:
    """Let searches that have not ended run one at a time. Yields each with the end of its share of the time left."""
    listed = await coordinator.store.searches.list(limit=200, states=OPEN)
    found = [each for each in listed if each.id not in without]
    for each in found:
        if each.state is not SearchState.PAUSED:
            await coordinator.pause(each.id)
    for number, each in enumerate(reversed(found)):
        now = time.monotonic()
        if (await coordinator.store.searches.get(each.id)).state not in OPEN:
            continue
        await coordinator.resume(each.id)
        yield each, now + (until - now) / (len(found) - number)
        if (await coordinator.store.searches.get(each.id)).state in OPEN:
            await coordinator.pause(each.id)


async def judged(store: Store, search: str, until: float, linger_s: float) -> bool:
    """Wait until a search runs and has nothing in flight; returns False if the time was up before."""
    quiet = None
    while time.monotonic() < until:
        await asyncio.sleep(POLL_S)
        found = await store.searches.get(search)
        busy = found.state is SearchState.PREPARING or await _in_flight(store, found)
        quiet = None if busy else quiet or time.monotonic()
        if quiet is not None and time.monotonic() - quiet >= max(QUIET_S, linger_s):
            return True
    return False


async def _in_flight(store: Store, search: SearchRecord) -> bool:
    """Return True if a search has candidates without a verdict, or answers that are no candidates yet."""
    answered = await store.exchanges.list(search=search.id, state=ExchangeState.ANSWERED, limit=1000)
    waits = any(exchange.outcome is None for exchange in answered)
    return waits or (await store.candidates.count(search.id)).in_flight > 0


async def opened(store: Store, prompts: int, until: float) -> None:
    """Wait until every search has so many prompts that wait for an answer."""
    while time.monotonic() < until:
        await asyncio.sleep(POLL_S)
        found = await _open(store)
        if found and all([await _waiting(store, each) >= prompts for each in found]):
            return


async def _open(store: Store) -> list[SearchRecord]:
    return await store.searches.list(limit=200, states=ACTIVE)


async def _waiting(store: Store, search: SearchRecord) -> int:
    return len(await store.exchanges.list(search=search.id, state=ExchangeState.WAITING, limit=1000))


async def told(store: Store) -> None:
    """Print the state of each search."""
    for each in reversed(await store.searches.list(limit=200)):
        counts, waiting = await store.candidates.count(each.id), await _waiting(store, each)
        best = await store.elites.best(each.id, each.devices[0])
        shown = {"evaluated": counts.evaluated, "in_flight": counts.in_flight, "waiting": waiting}
        shown |= {"device_s": counts.device_ms / 1000, "best": best.mid if best else None}
        print(each.operator_name, each.state.value, json.dumps(shown), each.reason, flush=True)


async def prompts(options: argparse.Namespace) -> None:
    """Write each waiting prompt into a file."""
    options.out.mkdir(parents=True, exist_ok=True)
    names = await _names(options.data)
    async with serve_inside(settings_of(options.data, 0, None), working=False) as reef:
        found = [item async for item in reef.wire.list(PromptSummary, "/prompts", state="waiting", limit=200)]
        for item in found:
            asked = await reef.wire.read(Prompt, f"/prompts/{item.id}")
            path = options.out / f"{names[item.search]}.{item.strategy}.{item.id}.md"
            path.write_text(f"{asked.system}\n\n{asked.user}\n")
    print(f"{len(found)} prompts are in {options.out}")


async def post(options: argparse.Namespace) -> None:
    """Answer prompts with the files that stand beside them."""
    files = sorted(options.out.glob("*.answer.md"))
    async with serve_inside(settings_of(options.data, 0, None), working=False) as reef:
        waiting = {item.id async for item in reef.wire.list(PromptSummary, "/prompts", state="waiting", limit=200)}
        posted = 0
        for file in files:
            prompt = file.name.removesuffix(".answer.md").rpartition(".")[2]
            if prompt in waiting:
                body = {"text": file.read_text(), "model": options.model}
                await reef.wire.act(Prompt, "POST", f"/prompts/{prompt}/answer", body)
                posted += 1
    print(f"{posted} answers of {len(files)} files are posted; {len(waiting) - posted} prompts still wait")


async def _names(data: Path) -> dict[str, str]:
    async with open_archive(settings_of(data, 0, None)) as store:
        return {each.id: each.operator_name for each in await store.searches.list(limit=200)}


class SearchFigures:
    """Result of one search, or of its beginning.

    Attributes:
        search: The search.
        counts: Its counts.
        order: Ids of its evaluated candidates, in the order of their proposals.
    """

    def __init__(self, path: Path, search: SearchRecord, counts: SearchCounts) -> None:
        engine = create_engine(f"sqlite:///{path}")
        with engine.connect() as archive:
            self.search, self.counts = search, counts
            mine = tables.candidates.c.search == search.id
            found = archive.execute(select(tables.candidates).where(mine).order_by(tables.candidates.c.ordinal)).all()
            done = [row for row in found if row.state is CandidateState.JUDGED and not row.equal_plan]
            self.order = tuple(row.id for row in done if row.outcome != "duplicate")
            self._outcomes = {row.id: row.outcome for row in found}
            placed = select(tables.placements).where(tables.placements.c.search == search.id)
            self._placed = [row for row in archive.execute(placed) if row.placement in WON]
            mine = tables.reports.c.search == search.id
            self._reports = archive.execute(select(tables.reports).where(mine).order_by(tables.reports.c.seq)).all()
            judged = select(tables.reports.c.bundle).where(mine)
            bundles = select(tables.bundles).where(tables.bundles.c.identity.in_(judged))
            self._cells = {row.identity: self._cell(row.readings) for row in archive.execute(bundles)}
        engine.dispose()

    def _cell(self, by_shape: Sequence[Mapping[str, Any]]) -> int | None:
        readings = by_shape[first_benchmark(self.search)] if by_shape else {}
        return Grid(self.search.axes).index(coordinates(readings)) if readings else None

    def after(self, evaluations: int) -> tuple[str, ...]:
        """Return the candidates that were evaluated first."""
        return self.order[:evaluations]

    def within(self, device_s: float) -> tuple[str, ...]:
        """Return the candidates whose first report came within so many device seconds."""
        total, seen = 0.0, set[str]()
        for report in self._reports:
            total += device_ms(Report.model_validate_json(report.document)) / 1000
            if total > device_s:
                break
            seen.add(report.candidate)
        reported = {report.candidate for report in self._reports}
        return tuple(id for id in self.order if id in seen or id not in reported)

    def figures(self, candidates: Collection[str]) -> Row:
        """Return the figures of some candidates."""
        offers = [row for row in self._placed if row.candidate in candidates]
        best = max(offers, key=lambda row: row.objective, default=None)
        worth = self.search.baselines.get(self.search.devices[0])
        correct = [row for row in self._reports if row.outcome == Outcome.CORRECT and row.candidate in candidates]
        cells = {self._cells.get(row.bundle) for row in correct} - {None}
        return {
            "evaluations": len(candidates),
            "correct": sum(self._outcomes[id] == Outcome.CORRECT for id in candidates),
            "best": None if best is None else round(best.objective, 4),
            "over_seed": None if best is None else round(best.mid / (worth.mid if worth else 1.0), 4),
            "cells": len(cells),
        }


async def conclude(options: argparse.Namespace) -> None:
    """Write the rows and the recording of one data folder or several; rows and lines of others stay."""
    rows: dict[str, list[Row]] = {}
    lines: list[Row] = []
    others = [each for data in options.rules for each in [result async for result in results(data)]]
    by_rules = {each.search.operator_name: each for each in others if each.search.llm is None}
    session = {"card": options.card, "date": datetime.now(UTC).date().isoformat()}
    for data in options.data:
        async with serve_inside(settings_of(data, 0, None), working=False) as reef:
            answered: dict[str, list[Prompt]] = {}
            async for item in reef.wire.list(PromptSummary, "/prompts", state="answered", limit=200):
                answered.setdefault(item.search, []).append(await reef.wire.read(Prompt, f"/prompts/{item.id}"))
        async with open_archive(settings_of(data, 0, None)) as store:
            async for result in results(data):
                said = sorted(answered.get(result.search.id, []), key=lambda each: each.id)
                recorded = [await line_of(store, result.search, each) for each in said]
                known = [line for line in recorded if line["verdict"] or line["outcome"] not in (None, CANDIDATE)]
                if not known:
                    continue
                lines += recorded
                row = {**await model_row(store, result, known), "seconds": result.counts.device_ms / 1000}
                row["replayed"] = sum(each.template == RECORDED for each in said)
                beside = by_rules.get(row["operator"])
                rows[row["operator"]] = [each | session for each in (row, *(rule_rows(row, beside) if beside else ()))]
    options.out.mkdir(parents=True, exist_ok=True)
    kept = joined(_rows_by_operator(options.out), rows)
    _write_lines(options.out / RECORDING, lines)
    tokens = f"bytes / {BYTES_PER_TOKEN:g} where the answerer counted none"
    print(write("models", kept, options.out, summary=summary(kept), tokens=tokens))
    print(json.dumps(summary(kept)))


def joined(earlier: Mapping[str, Sequence[Row]], rows: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return rows with those of other operators, which stay. Fewer answers than in an earlier session replace none."""
    found = dict(earlier)
    for operator, mine in rows.items():
        before = found.get(operator)
        if before and mine[0]["answers"] < before[0]["answers"]:
            print(f"{operator}: {mine[0]['answers']} answers have a verdict, before {before[0]['answers']}: left out")
        else:
            found[operator] = mine
    return [row for known in found.values() for row in known]


def _rows_by_operator(out: Path) -> dict[str, list[Row]]:
    """Read the rows of earlier sessions; the model's is the first of each operator."""
    found: dict[str, list[Row]] = {}
    path = out / "models.json"
    for row in json.loads(path.read_text())["rows"] if path.exists() else ():
        found.setdefault(row["operator"], []).append(row)
    return found


def _write_lines(path: Path, lines: Iterable[Row]) -> None:
    """Write the lines of a recording; a line with a verdict replaces the earlier one of its prompt."""
    earlier = read_recording(path) if path.exists() else {}
    found = {(line["operator"], line["prompt"]): line for known in earlier.values() for line in known}
    for line in lines:
        before = found.get((line["operator"], line["prompt"]))
        if before is None or line["verdict"] or not before["verdict"]:
            found[line["operator"], line["prompt"]] = line
    with lzma.open(path, "wt") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in found.values())


async def results(data: Path) -> AsyncIterator[SearchFigures]:
    """Read the searches of a data folder, oldest first."""
    async with open_archive(settings_of(data, 0, None)) as store:
        for each in reversed(await store.searches.list(limit=200)):
            yield SearchFigures(data / DATABASE_FILE, each, await store.candidates.count(each.id))


def read_recording(path: Path) -> dict[str, list[Row]]:
    """Read the lines of a recording by operator."""
    found: dict[str, list[Row]] = {}
    with lzma.open(path, "rt") as file:
        for line in map(json.loads, file):
            found.setdefault(line["operator"], []).append(line)
    return found


async def line_of(store: Store, search: SearchRecord, prompt: Prompt) -> Row:
    """Return an answer as a line of a recording, with what is needed to read it again, and its outcome."""
    operator = Operator.model_validate_json((await store.operators.get(search.operator)).document)
    candidate = await store.candidates.get(prompt.candidate) if prompt.candidate else None
    parent = (await store.candidates.get(prompt.parents[0])).source if prompt.parents else None
    asked = asked_of(prompt)
    return {
        "prompt": digest(asked),
        "completion": asdict(answered_with(prompt)),
        "asked": asdict(asked),
        "operator": search.operator_name,
        "entry": operator.entry,
        "as_module": takes_module(operator.reference),
        "strategy": prompt.strategy,
        "parent": parent or operator.seeds[0],
        "outcome": prompt.outcome,
        "reason": prompt.outcome_reason,
        "verdict": candidate.outcome if candidate else None,
        "source": candidate.source if candidate else None,
    }


async def model_row(store: Store, result: SearchFigures, answers: Sequence[Row]) -> Row:
    """Return the row of a model's search. First tries are answers that repair nothing and repeat no known text."""
    stats = (await standings_of(store, result.search)).rows
    first = [line for line in answers if line["strategy"] != REPAIR and line["outcome"] != "duplicate"]
    tokens = sum(_tokens(line) for line in answers)
    return {
        "operator": result.search.operator_name,
        "emitters": list(result.search.emitters),
        "strategies": list(STRATEGIES),
        **result.figures(result.order),
        "answers": len(answers),
        "first_tries": len(first),
        "first_try_valid": _share(sum(line["verdict"] == Outcome.CORRECT for line in first), len(first)),
        "hit_rate": _share(sum(row.hits for row in stats), sum(row.aimed for row in stats)),
        "repair_rate": _share(sum(row.repaired for row in stats), sum(row.repairs for row in stats)),
        "tokens": round(tokens),
        "models": sorted({line["completion"]["model"] for line in answers}),
        "provenance": "measured" if not result.search.devices[0].startswith("model:") else "predicted",
        "device": result.search.devices[0],
        "admitted": result.search.admitted,
    }


def rule_rows(row: Row, other: SearchFigures) -> list[Row]:
    """Return the rows of the rules for a model's row: after as many evaluations, and after as many device seconds."""
    shown = {name: row[name] for name in ("operator", "provenance", "device")}
    shown |= {"emitters": list(other.search.emitters), "answers": 0, "tokens": 0}
    cuts = {"evaluations": other.after(row["evaluations"]), "device_seconds": other.within(row["seconds"])}
    reached = {"evaluations": row["evaluations"] <= len(other.order)}
    reached["device_seconds"] = row["seconds"] <= other.counts.device_ms / 1000
    return [{**shown, "equal": cut, "reached": reached[cut], **other.figures(ids)} for cut, ids in cuts.items()]


def summary(rows: Iterable[Row]) -> Row:
    """Return the model's geometric mean over the rules, on how many operators it is ahead, and its validity."""
    known = list(rows)
    models = {row["operator"]: row for row in known if "equal" not in row}
    told: Row = {"operators": len(models), "answers": sum(row["answers"] for row in models.values())}
    valid = sum((row["first_try_valid"] or 0.0) * row["first_tries"] for row in models.values())
    told["first_try_valid"] = _share(valid, sum(row["first_tries"] for row in models.values()))
    for cut in ("evaluations", "device_seconds"):
        beside = [row for row in known if row.get("equal") == cut]
        pairs = [(models[row["operator"]]["over_seed"], row["over_seed"]) for row in beside]
        ratios = [mine / theirs for mine, theirs in pairs if mine and theirs]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
        told[cut] = {
            "compared": len(ratios),
            "reached": sum(row["reached"] for row in beside),
            "ahead": sum(ratio > 1 for ratio in ratios),
            "geometric_mean": mean,
        }
    return told


def _share(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _tokens(line: Row) -> float:
    """Return the tokens of a prompt and its answer, estimated from their bytes if they were not counted."""
    said, asked = line["completion"], line["asked"]
    counted: float = said["input_tokens"] + said["output_tokens"]
    return counted or len((asked["system"] + asked["user"] + said["text"]).encode()) / BYTES_PER_TOKEN


ACTIONS = {"search": search, "rules": rules, "prompts": prompts, "post": post, "conclude": conclude}


def main() -> None:
    """Do one step."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("action", choices=ACTIONS)
    options.add_argument("--data", type=Path, nargs="+", required=True, help="data folder; conclude reads several")
    options.add_argument("--operators", nargs="*", default=(), help="catalogue names or folders to begin with")
    options.add_argument("--device", default="model:sm_90")
    options.add_argument("--prompts", type=int, default=0, help="prompts to open per search; none if 0")
    options.add_argument("--seconds", type=float, default=600.0, help="maximum time on this machine")
    options.add_argument("--linger", type=float, default=0.0, help="seconds for confirms after the last verdict")
    options.add_argument("--evaluations", type=int, default=80, help="maximum per search, for rules")
    options.add_argument("--workers", type=int, default=max(1, usable_cores() - 2), help="that trace")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder of prompts and answers, or of results")
    options.add_argument("--model", default="", help="name of the model that answered, for post")
    options.add_argument("--rules", type=Path, nargs="*", default=(), help="data folders of the rules, for conclude")
    options.add_argument("--card", default="", help="name of the card, for conclude")
    chosen = options.parse_args()
    if chosen.action != "conclude":
        (chosen.data,) = chosen.data
    asyncio.run(ACTIONS[chosen.action](chosen))


if __name__ == "__main__":
    main()
