"""`reef search`: run a whole search, from an operator to a file with the best kernel."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from archive.records import PRIORITY, SearchState
from kernelreef import AsyncReef
from kernelreef.models import Search
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import err
from service.cli.watch import (
    DEFAULT_EMITTERS,
    Bandit,
    Devices,
    Emitters,
    Evaluations,
    Llm,
    LlmCalls,
    LlmStrategies,
    LlmTokens,
    LlmUsd,
    Priority,
    Problem,
    Screening,
    Seed,
    Spec,
    Stop,
    asked_for,
    conclude,
    look_on,
    options_of,
    terms_of,
    write_kernel,
)


def search(
    spec: Spec = "rmsnorm",
    device: Devices = None,
    evaluations: Evaluations = 200,
    emitters: Emitters = DEFAULT_EMITTERS,
    seed: Seed = 0,
    priority: Priority = PRIORITY,
    llm: Llm = "",
    llm_strategies: LlmStrategies = "",
    llm_calls: LlmCalls = None,
    llm_tokens: LlmTokens = None,
    llm_usd: LlmUsd = None,
    stop: Stop = None,
    bandit: Bandit = True,
    screening: Screening = False,
    kernelbench: Problem = None,
    resume: Annotated[str | None, typer.Option(help="Id of a search to continue.")] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the best kernel.")] = Path("reef-out"),
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Search for a faster kernel for SPEC."""
    terms = terms_of(llm, llm_strategies, llm_calls, llm_tokens, llm_usd)
    options = options_of(device, evaluations, emitters, seed, stop, priority=priority, terms=terms)
    operator = asked_for(spec, kernelbench, options)
    options["selection"] = {"bandit": bandit, "screening": screening}
    asked = None if resume else (operator, options)

    async def begin(reef: AsyncReef) -> Search:
        if asked is not None:
            return await reef.submit(asked[0], **asked[1])
        found = await reef.search(resume or "")
        return await reef.resume(found.id) if found.state is SearchState.PAUSED else found

    async def whole() -> int:
        async with reach(url, token, working=True) as reef:
            found = await begin(reef)
            err.print(f"search {found.id} (continue it after an interruption with: reef search --resume {found.id})")
            progress = await look_on(reef, found)
            best = await reef.best(found.id)
            path = await write_kernel(reef, best, found.id, out_dir) if best else None
            return conclude(progress, await reef.archive(found.id), path, as_json=as_json)

    raise typer.Exit(asyncio.run(whole()))
