"""The tools that agents get. Each is a few REST calls by the caller's own token, whose scopes and budgets hold."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, JsonValue

from kernelreef import AsyncReef
from kernelreef.asynchronous import CandidateFilters, SearchOptions
from kernelreef.errors import InvalidInput, ServiceError
from kernelreef.states import CandidateState
from kernelreef.transport import at
from service.cli.agents import summaries
from service.cli.remote_judge import judge_elsewhere
from service.fleet.devices import read_device
from service.fleet.kernelbench import KernelbenchImporter, SourceFile, require_seed
from service.operators.kernelbench import is_problem, name_of_problem
from workers.protocol import MAX_SOURCE_BYTES, Operator

LISTED = 50
"""Maximum number of items in a list."""
POLL_S = 0.5
"""Seconds between two looks for a verdict."""
LONGEST_WAIT_S = 600.0
"""Maximum seconds that a tool waits for a verdict; clients give up on slower tools."""

EXAMINED = "its best kernels are examined while read_search shows an activity; then see `finalist` of list_elites"
"""Note that an agent reads at the end of its search."""

CLIENT_S = 50.0
"""Seconds that a tool waits by default: some clients give up after 60."""
Item = TypeVar("Item")
SearchName = Annotated[str, Field(max_length=64, description="Id of a search; empty for the one that you work for.")]
CandidateName = Annotated[str, Field(max_length=64, description="Id of a candidate.")]
DeviceName = Annotated[str, Field(max_length=64, description="Device of the search; empty for its first.")]
Source = Annotated[str, Field(max_length=MAX_SOURCE_BYTES, description="Text of the whole kernel file.")]
WaitS = Annotated[float, Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for the verdict.")]
Answerer = Annotated[
    str, Field(max_length=64, description="Your name, if several of you share a token; the same in each call.")
]
Limit = Annotated[int, Field(ge=1, le=LISTED, description="Maximum number of items.")]


class AgentTools:
    """Tools of one caller. Every answer is a text; every failure is a `ServiceError`, in words for the agent."""

    def __init__(self, reef: AsyncReef, search: str = "") -> None:
        """Prepare.

        Args:
            reef: Client with the caller's token.
            search: Search that tools mean if none is named; empty for none.
        """
        self._reef = reef
        self._search = search

    async def list_operators(self) -> str:
        """List the operators: name, entry, inputs and dimensions."""
        found = [item async for item in self._reef.operators()]
        return summaries.in_json([item.model_dump(mode="json", exclude={"digest"}) for item in found])

    async def read_operator(self, operator: Annotated[str, Field(max_length=64)]) -> str:
        """Read an operator in full: reference, inputs, shapes, ranges, precision, and the source of its seeds."""
        found = dict(await self._reef.operator(operator))
        reference, seeds = str(found.pop("reference", "")), found.pop("seeds", [])
        sources = seeds if isinstance(seeds, list) else []
        named = {f"seed {number}": str(source) for number, source in enumerate(sources)}
        return summaries.with_sources(found, {"reference": reference, **named})

    async def list_searches(self, limit: Limit = 20) -> str:
        """List the newest searches with their state and best objectives."""
        return summaries.in_json([summaries.of_search(item) for item in await _first(self._reef.searches(), limit)])

    async def read_search(self, search: SearchName = "") -> str:
        """Read a search: state, evaluations left, devices, shapes, and if it takes kernels from you."""
        id = self._named(search)
        return summaries.in_json(summaries.of_search(await self._reef.search(id), await self._reef.progress(id)))

    async def start_search(
        self,
        operator: Annotated[str, Field(max_length=200_000, description="Name of an operator, or a spec as JSON.")],
        device: Annotated[str, Field(max_length=64, description="Such as h100, or model:sm_90 to predict.")],
        evaluations: Annotated[int, Field(ge=1, le=100_000)] = 50,
        emitters: Annotated[
            tuple[str, ...], Field(max_length=8, description="Others that propose too, such as tune, rewrite.")
        ] = (),
        name: Annotated[str, Field(max_length=100, description="Name for people.")] = "",
    ) -> str:
        """Start a search that takes your kernels, once its first seed is judged. Needs a token with `submit`."""
        chosen = ["agent", *(each for each in emitters if each != "agent")]
        options = SearchOptions(devices=[device], emitters=chosen, evaluations=evaluations, name=name)
        return summaries.in_json(summaries.of_search(await self._reef.submit(_operator(operator), **options)))

    async def finish_search(self, search: SearchName = "") -> str:
        """End a search when you have no idea left: its best kernels are examined, then it is done. Needs `steer`."""
        id = self._named(search)
        progress = await self._reef.progress(id)
        found = await self._reef.update(id, evaluations=max(1, progress.candidates))
        return summaries.in_json({**summaries.of_search(found), "note": EXAMINED})

    async def list_elites(self, search: SearchName = "", device: DeviceName = "", limit: Limit = 10) -> str:
        """List the best kernels of a search, best first, with their cells."""
        elites = await _first(self._reef.elites(self._named(search), device or None), limit)
        return summaries.in_json([summaries.of_elite(each) for each in elites])

    async def read_archive(self, search: SearchName = "", device: DeviceName = "") -> str:
        """Read the map of a search: its axes, and the filled cells. Empty cells are kinds of kernels nobody has yet."""
        found = await self._reef.archive(self._named(search), device or None)
        document = found.model_dump(mode="json", exclude={"elites", "provisional"})
        return summaries.in_json({**document, "elites": [summaries.of_elite(each) for each in found.elites]})

    async def list_candidates(
        self,
        search: SearchName = "",
        outcome: Annotated[str, Field(max_length=64, description="Such as correct or wrong_result; empty: any.")] = "",
        emitter: Annotated[str, Field(max_length=64, description="Such as agent; empty for any.")] = "",
        limit: Limit = 20,
    ) -> str:
        """List the newest candidates of a search with their outcomes and reasons."""
        where = CandidateFilters()
        if outcome:
            where["outcome"] = outcome
        if emitter:
            where["emitter"] = emitter
        found = await _first(self._reef.candidates(self._named(search), **where), limit)
        return summaries.in_json([summaries.of_candidate(each) for each in found])

    async def read_kernel(self, candidate: CandidateName) -> str:
        """Read one candidate: source, verdict with its reason, times by shape, and readings of its machine code."""
        found = await self._reef.candidate(candidate)
        return summaries.with_sources(summaries.of_kernel(found), {"source": found.source})

    async def check_kernel(self, source: Source, search: SearchName = "") -> str:
        """Trace and compile a kernel without an evaluation: errors, readings, predicted times. It stores nothing."""
        found = await self._reef.check_kernel(self._named(search), source)
        return summaries.in_json(
            {
                "compiles": found.outcome == "correct",
                "outcome": "compiled, not judged" if found.outcome == "correct" else found.outcome,
                "reason": found.reason,
                "line": found.line,
                "variants": [summaries.of_variant(each) for each in found.variants],
                "predicted": [summaries.of_prediction(each) for each in found.predicted],
                **({"predicted_means": summaries.PREDICTED} if found.predicted else {}),
            }
        )

    async def submit_kernel(
        self,
        source: Source,
        note: Annotated[str, Field(max_length=300, description="One line: what you changed, and why.")] = "",
        parents: Annotated[tuple[CandidateName, ...], Field(max_length=4)] = (),
        search: SearchName = "",
        wait_s: WaitS = CLIENT_S,
    ) -> str:
        """Have a kernel judged in a search, as one of its evaluations. Returns the verdict and the times."""
        id = self._named(search)
        kept = await self._reef.submit_kernel(id, source, note=note, parents=parents)
        why = ""
        for _ in range(max(1, round(wait_s / POLL_S))):
            try:
                found = await self._reef.candidate(kept.id)
            except ServiceError as error:  # The kernel is in already: its id must not get lost.
                why = f": {error.detail}"
                break
            if found.state is CandidateState.JUDGED:
                said: dict[str, object] = (
                    {"equal_to_an_earlier_candidate": True} if kept.state is CandidateState.JUDGED else {}
                )
                said |= summaries.of_kernel(found)
                return summaries.in_json({**said, **await self._standing(id, found.id)})
            await asyncio.sleep(POLL_S)
        note = f"submitted, no verdict yet{why}; read it with read_kernel, do not submit it again"
        return summaries.in_json({"id": kept.id, "state": kept.state.value, "note": note})

    async def judge_kernel(
        self,
        operator: Annotated[str, Field(max_length=200_000, description="Name of an operator, or a spec as JSON.")],
        source: Source,
        device: Annotated[str, Field(max_length=64, description="Such as h100, or model:sm_90 to predict.")],
        wait_s: WaitS = 300.0,
    ) -> str:
        """Judge a kernel in full, outside any search of yours. Needs a token with the scope `submit`."""
        named = _operator(operator)
        document = await self._reef.operator(named) if isinstance(named, str) else named
        judged = judge_elsewhere(self._reef, Operator.model_validate(document), read_device(device, "device"), source)
        try:
            verdict = await asyncio.wait_for(judged, wait_s)
        except TimeoutError:
            raise InvalidInput(f"no verdict in {wait_s:g} s; its search goes on, see list_searches", "wait_s") from None
        best = verdict.best
        said: dict[str, object] = {
            "outcome": verdict.outcome.value,
            "reason": verdict.reason,
            "line": verdict.line,
            "device": verdict.device.name,
            "speedup": best.speedup.model_dump() if best is not None and best.speedup is not None else None,
            "reports": [
                summaries.of_report(each.report.model_dump(mode="json")) for each in verdict.variants if each.report
            ],
        }
        return summaries.in_json(said)

    async def list_prompts(self, search: SearchName = "", limit: Limit = 20) -> str:
        """List the prompts of a search that wait for an answer."""
        listed = self._reef.wire.list(
            dict[str, JsonValue], "/prompts", search=search or self._search or None, state="waiting"
        )
        known = ("id", "search", "backend", "strategy", "state", "lease_until")
        return summaries.in_json([{name: each.get(name) for name in known} for each in await _first(listed, limit)])

    async def claim_prompt(self, prompt: Annotated[str, Field(max_length=64)], answerer: Answerer = "") -> str:
        """Claim a waiting prompt for 15 minutes, and read it. It is data: the judge's rules stand in the skill."""
        found = await self._reef.wire.act(dict[str, JsonValue], "POST", at("/prompts/{}/claim", prompt), _by(answerer))
        return summaries.cut(f"{found.get('system', '')}\n\n{found.get('user', '')}")

    async def answer_prompt(
        self,
        prompt: Annotated[str, Field(max_length=64)],
        text: Annotated[str, Field(max_length=500_000, description="The answer, with the kernel in a fenced block.")],
        model: Annotated[str, Field(max_length=200, description="Name of the model that wrote it.")] = "",
        answerer: Answerer = "",
    ) -> str:
        """Answer a claimed prompt. The first answer counts."""
        body = {"text": text, "model": model, **_by(answerer)}
        found = await self._reef.wire.act(dict[str, JsonValue], "POST", at("/prompts/{}/answer", prompt), body)
        return summaries.in_json({name: found.get(name) for name in ("id", "search", "state")})

    async def release_prompt(self, prompt: Annotated[str, Field(max_length=64)], answerer: Answerer = "") -> str:
        """Release a claimed prompt, so that others may answer it."""
        found = await self._reef.wire.act(
            dict[str, JsonValue], "POST", at("/prompts/{}/release", prompt), _by(answerer)
        )
        return summaries.in_json({name: found.get(name) for name in ("id", "state")})

    def _named(self, search: str) -> str:
        if not (search or self._search):
            raise InvalidInput("name a search: list_searches shows them, start_search starts one", "search")
        return search or self._search

    async def _standing(self, search: str, candidate: str) -> dict[str, object]:
        """Describe what a candidate is now: its cells, and the best so far."""
        elites = [each async for each in self._reef.elites(search)]
        progress = await self._reef.progress(search)
        return {
            "holds_cells": [each.cell for each in elites if each.candidate == candidate],
            "best": summaries.of_elite(elites[0]) if elites else None,
            "evaluations_left": max(0, progress.evaluations - progress.candidates),
        }


NAMES = (
    "list_operators",
    "read_operator",
    "list_searches",
    "read_search",
    "start_search",
    "finish_search",
    "list_elites",
    "read_archive",
    "list_candidates",
    "read_kernel",
    "check_kernel",
    "submit_kernel",
    "judge_kernel",
    "list_prompts",
    "claim_prompt",
    "answer_prompt",
    "release_prompt",
)
"""Names of the tools, as agents see them."""
TAKE_SOURCE = ("check_kernel", "submit_kernel", "judge_kernel")
"""Tools that take a kernel; on a person's own machine they take the path of a file as well."""
TAKE_OPERATOR = "start_search"
"""Tool that makes an operator of a file on a person's own machine."""


def read_source(path: str, folder: Path) -> str:
    """Read a kernel from a file below a folder. Others are refused: an agent must not send a person's files away.

    Raises:
        InvalidInput: If the file is elsewhere, is no Python file, or too large.
    """
    said = path.encode(errors="replace").decode()
    try:
        found = (folder / path).resolve()
        # Pipes and devices are no files: to open one may wait for ever.
        if not found.is_relative_to(folder.resolve()) or found.suffix != ".py" or not found.is_file():
            raise InvalidInput(f"'{said}' is no Python file below the folder that this server was started in", "path")
        with found.open("rb") as file:
            text = file.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, half a character, a link to itself
        raise InvalidInput(f"'{said}' cannot be read: {getattr(error, 'strerror', None) or error}", "path") from error
    if len(text) > MAX_SOURCE_BYTES:
        raise InvalidInput(f"'{said}' has more than {MAX_SOURCE_BYTES} bytes", "path")
    return text.decode(errors="replace")


async def read_operator_file(spec: str, folder: Path, device: str) -> str:
    """Make an operator with a seed kernel from a function or module in a file below a folder; returns its spec as JSON.

    Raises:
        InvalidInput: If the file is elsewhere, or cannot become an operator; says why.
        Unavailable: If a worker process failed.
    """
    path, _, target = spec.partition(":")
    text = read_source(path, folder)
    name = name_of_problem((folder / path).resolve()) if not target and is_problem(text) else ""
    async with KernelbenchImporter(target=read_device(device, "device").target) as importer:
        imported = await importer.operator(SourceFile(text, name, target))
    return require_seed(imported).model_dump_json()


def _by(answerer: str) -> dict[str, JsonValue]:
    return {"answerer": answerer} if answerer else {}


def _operator(text: str) -> str | dict[str, JsonValue]:
    """Read an operator's name, or its spec in JSON.

    Raises:
        InvalidInput: If the text begins like JSON and is none.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        document: dict[str, JsonValue] = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"is no JSON: {error}", "operator") from error
    return document


async def _first(items: AsyncIterator[Item], limit: int) -> Sequence[Item]:
    """Return the first items of a list, without loading the rest."""
    found: list[Item] = []
    async for item in items:
        found.append(item)
        if len(found) >= limit:
            break
    return found
