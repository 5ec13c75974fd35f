"""`reef search`: run a whole search, from an operator to a file with the best kernel."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from archive.records import PRIORITY
from kernelreef import AsyncReef
from kernelreef.asynchronous import SearchChanges, SearchOptions
from kernelreef.models import Search
from kernelreef.states import ENDED
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import err
from service.cli.control import changes_of
from service.cli.interruption import run_interruptibly
from service.cli.new import Vary
from service.cli.watch import (
    Admit,
    Bandit,
    Compiler,
    Devices,
    Emitters,
    Evaluations,
    Llm,
    LlmCalls,
    LlmStrategies,
    LlmTokens,
    LlmUsd,
    OperatorChoices,
    Priority,
    Problem,
    Screening,
    Seed,
    Shapes,
    Spec,
    Start,
    Stop,
    asked_for,
    conclude,
    continuing,
    follow,
    options_of,
    terms_of,
    write_kernel,
)
from service.errors import Conflict
from workers.protocol import Operator


def search(
    spec: Spec = "rmsnorm",
    device: Devices = None,
    evaluations: Evaluations = None,
    emitters: Emitters = None,
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
    compiler: Compiler = None,
    admit: Admit = False,
    kernelbench: Problem = None,
    vary: Vary = None,
    start: Start = None,
    shapes: Shapes = None,
    resume: Annotated[str | None, typer.Option(help="Id of a search to continue.")] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the best kernel.")] = Path("reef-out"),
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Search for a faster kernel for SPEC. With --resume, --evaluations and --stop change the limits of that search."""
    devices: Sequence[str] = ()
    if resume:
        limits = changes_of(evaluations, None, stop) if evaluations is not None or stop else None
        begin = functools.partial(_take_up, resume, limits)
    else:
        terms = terms_of(llm, llm_strategies, llm_calls, llm_tokens, llm_usd)
        options = options_of(device, evaluations, emitters, seed, stop, compiler, priority=priority, terms=terms)
        operator = asked_for(spec, kernelbench, options, OperatorChoices(vary, start, shapes, out_dir))
        options["selection"] = {"bandit": bandit, "screening": screening}
        options["admit"] = admit
        begin, devices = functools.partial(_submit, operator, options), options["devices"]

    async def whole() -> int:
        async with reach(url, token, working=True, devices=devices) as reef:
            found = await begin(reef)
            err.print(f"search {found.id} (continue it after an interruption with: {continuing(found)})")
            progress = await follow(reef, found)
            best = await reef.best(found.id)
            path = await write_kernel(reef, best, found.id, out_dir) if best else None
            return conclude(progress, await reef.archive(found.id), path, as_json=as_json)

    raise typer.Exit(run_interruptibly(whole()))


async def _submit(operator: str | Operator, options: SearchOptions, reef: AsyncReef) -> Search:
    return await reef.submit(operator, **options)


async def _take_up(id: str, limits: SearchChanges | None, reef: AsyncReef) -> Search:
    """Continue a search, with other limits if there are some. One that is done and has no room stays done.

    If its finalists are unexamined, they are examined.
    """
    found = await reef.search(id)
    if limits is not None:
        found = await reef.update(found.id, **limits)
    try:
        return await reef.resume(found.id)
    except Conflict as error:
        if limits is not None or found.state not in ENDED:
            raise
        if not found.finishing:
            err.print(error.detail, highlight=False)
        return found
