"""`reef submit` and `reef watch`: start a search, and follow it until it ends."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError

from archive.progress import dropped
from archive.records import PRIORITY, SearchState
from kernelreef import AsyncReef
from kernelreef.asynchronous import SearchOptions
from kernelreef.models import Archive, Elite, Progress, Search
from kernelreef.short_ids import brief
from kernelreef.states import ENDED
from kernelreef.validation import invalid
from service.cli.connection import AsJson, LocalReef, NewestSearch, Token, Url, reach
from service.cli.console import emit_json, err, out
from service.cli.heat_map import elite_table, heat_map
from service.cli.interruption import run_interruptibly
from service.cli.new import Vary, operator_in_one_step, read_problem, source_file, with_seed
from service.cli.progress import ProgressView, equal_plans_in_words, held_in_words
from service.cli.renamed import current_rule
from service.errors import InvalidInput, NotFound, ServiceError, Unavailable
from service.evaluation.figure_labels import in_words
from service.operators.calls import shapes_of_calls, with_calls, with_start
from service.operators.catalogue import catalogue_names, load_operator
from service.operators.joined_files import read_candidate
from service.requests import SearchRequest
from service.tasks import end
from workers.protocol import Operator

OUR_FAILURE = 1
NOTHING_CORRECT = 3
PATIENCE_S = 60.0
"""Seconds to wait for an absent coordinator while following a search: it may be restarting."""
POLL_S = 0.5
"""Seconds between updates of the view."""
DEFAULT_EMITTERS = "tune,rewrite"
ASKING_EMITTER = "llm"
"""Emitter that asks the backends of `--llm`."""
EVALUATIONS = 200

Spec = Annotated[
    str,
    typer.Argument(
        help="A catalogue name, the name or digest of a submitted operator, a path to a spec, or FILE.py[:NAME]: a "
        "Python file with a function, an nn.Module or a KernelBench problem."
    ),
]
Problem = Annotated[
    Path | None,
    typer.Option("--kernelbench", help="A KernelBench problem file in place of SPEC.", show_default=False),
]
Devices = Annotated[
    list[str] | None,
    typer.Option("--device", help="Device: cuda, auto, a class (h200), model:<target>, recorded:<class>; may repeat."),
]
Evaluations = Annotated[
    int | None, typer.Option(help=f"Maximum number of evaluations; {EVALUATIONS} by default.", show_default=False)
]
Emitters = Annotated[
    str | None,
    typer.Option(
        help=f"Emitters, comma-separated; {DEFAULT_EMITTERS} by default, and llm with --llm.", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the proposals; input values do not depend on it.")]
Priority = Annotated[int, typer.Option(help="Priority among your own searches, 1 to 9.")]
Llm = Annotated[str, typer.Option(help="LLM backends for the emitter llm, comma-separated.")]
LlmStrategies = Annotated[str, typer.Option(help="LLM strategies, comma-separated; all by default.")]
LlmCalls = Annotated[int | None, typer.Option(help="Maximum number of LLM calls.")]
LlmTokens = Annotated[int | None, typer.Option(help="Maximum number of tokens, prompts and answers together.")]
LlmUsd = Annotated[float | None, typer.Option(help="Maximum spending on LLM calls, in US dollars.")]
Stop = Annotated[
    list[str] | None,
    typer.Option(help="End earlier: seconds=N, device_seconds=N, plateau=N or speedup=X; may be given repeatedly."),
]
Start = Annotated[
    Path | None,
    typer.Option(help="Your kernel: the first seed, and what gains are told over.", show_default=False),
]
Shapes = Annotated[
    Path | None,
    typer.Option(
        help="JSON file with the sizes of real calls: they are timed, weighted by their count.", show_default=False
    ),
]
Bandit = Annotated[bool, typer.Option(help="Allocate proposals to emitters by their results; otherwise evenly.")]
Compiler = Annotated[
    str | None,
    typer.Option(help="Triton release that compiles the kernels, such as 3.9; any by default.", show_default=False),
]
Screening = Annotated[bool, typer.Option(help="Rank possible edits with a surrogate model of the results so far.")]

Admit = Annotated[
    bool,
    typer.Option("--admit", help="Go on if mutation testing fails the operator; what is found is marked as doubtful."),
]


def submit(
    spec: Spec = "",
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
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Start a search for SPEC and leave it to the coordinator."""
    terms = terms_of(llm, llm_strategies, llm_calls, llm_tokens, llm_usd)
    options = options_of(device, evaluations, emitters, seed, stop, compiler, priority=priority, terms=terms)
    options["selection"] = {"bandit": bandit, "screening": screening}
    options["admit"] = admit
    choices = OperatorChoices(vary, start, shapes)
    found = asyncio.run(_submit(asked_for(spec, kernelbench, options, choices), options, url, token))
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out.print(found.id, highlight=False)
    err.print(f"follow it with: reef watch {found.id}", highlight=False)


def watch(
    search: NewestSearch = "",
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Follow a search until it ends. Without a running coordinator, this command runs the search itself."""
    raise typer.Exit(run_interruptibly(_watch(search, url, token, as_json=as_json)))


async def _submit(operator: str | Operator, options: SearchOptions, url: str | None, token: str | None) -> Search:
    async with reach(url, token, working=True) as reef:
        return await reef.submit(operator, **options)


async def _watch(search: str, url: str | None, token: str | None, *, as_json: bool) -> int:
    async with reach(url, token, working=True) as reef:
        found = await find_search(reef, search)
        if isinstance(reef, LocalReef) and found.state is SearchState.PAUSED:
            err.print(f"search {found.id} is paused; continue it with: {continuing(found)}", highlight=False)
            return 0
        if isinstance(reef, LocalReef) and found.state not in ENDED:
            found = await reef.resume(found.id)
        progress = await follow(reef, found)
        return conclude(progress, await reef.archive(found.id), None, as_json=as_json)


@dataclass(frozen=True)
class OperatorChoices:
    """Choices of a command about its operator.

    Attributes:
        vary: Sizes of a Python file that vary; None for all that may.
        start: Kernel to start from, and to tell gains over.
        shapes: File with the sizes of real calls.
        keep: Folder to keep the folder of a Python file's operator in; None to keep none.
    """

    vary: str | None = None
    start: Path | None = None
    shapes: Path | None = None
    keep: Path | None = None


def asked_for(
    spec: str, problem: Path | None, options: SearchOptions, choices: OperatorChoices = OperatorChoices()
) -> str | Operator:
    """Return the operator to submit: SPEC, or one made on this machine from the Python file that it names.

    Args:
        spec: A catalogue name, the name of a submitted operator, a path to a spec, or `FILE.py:NAME`.
        problem: A KernelBench problem in place of SPEC.
        options: Options of the search.
        choices: Choices about the operator.

    Raises:
        InvalidInput: If both are missing, the file is not a spec, or it gives no operator with a seed.
        Unavailable: If the conversion failed.
    """
    device, is_own = options["devices"][0], choices.start is not None
    where = "--kernelbench" if problem else "SPEC"
    file = source_file(str(problem or spec), choices.vary, field=where)
    if file is not None:
        operator = operator_in_one_step(file, device, choices.keep, seeded=not is_own)
    elif problem is not None:
        raise InvalidInput(f"'{problem}' is no Python file", "--kernelbench")
    elif not spec:
        raise InvalidInput("name an operator: SPEC, or a Python file", "operator")
    else:
        named = load_operator(spec) if is_own or choices.shapes else operator_of(spec)
        if isinstance(named, str):
            return named
        operator = named if is_own else with_seed(named, device)
    return _as_called(operator, choices)


def _as_called(operator: Operator, choices: OperatorChoices) -> Operator:
    """Return an operator with the kernel to start from and the sizes of real calls."""
    if choices.start is not None:
        operator = with_start(operator, read_candidate([choices.start], operator.entry).text)
    if choices.shapes is not None:
        timed, share = shapes_of_calls(operator, read_problem(choices.shapes))
        operator = with_calls(operator, timed)
        err.print(f"{len(timed)} sizes of real calls are timed, {share:.0%} of all calls", highlight=False)
    return operator


def operator_of(spec: str) -> str | Operator:
    """Load the operator if SPEC is a file or folder; otherwise return SPEC as a name that the service resolves.

    Raises:
        InvalidInput: If the file is not a spec.
    """
    here = Path(spec)
    is_path = here.suffix in (".toml", ".json", ".py") or len(here.parts) > 1 or here.is_dir() or spec.startswith(".")
    return load_operator(spec) if is_path and spec not in catalogue_names() else spec


def terms_of(
    backends: str, strategies: str, calls: int | None, tokens: int | None, usd: float | None
) -> dict[str, JsonValue] | None:
    """Read the LLM options of a command. Returns None if they name no backend.

    Raises:
        InvalidInput: If there are LLM options, but no backend.
    """
    limits: dict[str, JsonValue] = {"calls": calls, "tokens": tokens, "usd": usd}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if backends:
        return {"backends": list(_words(backends)), "strategies": list(_words(strategies)), **given}
    if given or strategies:
        raise InvalidInput("name the LLM backends: --llm BACKEND", "llm")
    return None


def options_of(
    device: list[str] | None,
    evaluations: int | None,
    emitters: str | None,
    seed: int,
    stop: list[str] | None = None,
    compiler: str | None = None,
    *,
    priority: int = PRIORITY,
    terms: Mapping[str, JsonValue] | None = None,
) -> SearchOptions:
    """Read the options of a search.

    Raises:
        InvalidInput: If an option is invalid; it names the option.
    """
    options = SearchOptions(
        devices=tuple(device or ["model:sm_90"]),
        emitters=emitters_of(emitters, asks=terms is not None),
        evaluations=EVALUATIONS if evaluations is None else evaluations,
        seed=seed,
        priority=priority,
    )
    if terms is not None:
        options["llm"] = terms
    if stop:
        options["stop"] = rules_of(stop)
    if compiler:
        options["compiler"] = compiler
    try:
        SearchRequest.model_validate({"operator": "any", **options})
    except ValidationError as error:
        raise invalid(error, SearchRequest) from error
    return options


def emitters_of(given: str | None, *, asks: bool) -> tuple[str, ...]:
    """Return the emitters of a search: those given, or the default ones.

    Args:
        given: Value of `--emitters`; None if it was not given.
        asks: True if LLM backends were named; the default emitters then include the one that asks them.
    """
    if given is not None:
        return _words(given)
    return (*_words(DEFAULT_EMITTERS), *((ASKING_EMITTER,) if asks else ()))


def rules_of(stop: list[str]) -> dict[str, JsonValue]:
    """Split the values of `--stop` into names and values, without checking them."""
    return {current_rule(name): value for name, _, value in (rule.partition("=") for rule in stop)}


def _words(given: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.split(",") if name.strip())


async def find_search(reef: AsyncReef, id: str) -> Search:
    """Read a search by its id, or the newest search.

    Raises:
        NotFound: If there is none.
    """
    if id:
        return await reef.search(id)
    newest = await anext(reef.searches(), None)
    if newest is None:
        raise NotFound("there is no search yet; start one with: reef search rmsnorm")
    return newest


async def follow(reef: AsyncReef, search: Search) -> Progress:
    """Show a search until it ends, and return its final progress.

    If the command is interrupted, a search that runs in this process is paused; elsewhere it goes on. A line says so.
    One that is done in this process is shown until its finalists are examined; an interruption leaves them unexamined.
    """
    try:
        return await look_on(reef, search)
    except asyncio.CancelledError:
        if isinstance(reef, LocalReef):
            if (progress := await reef.progress(search.id)).finishing and (task := asyncio.current_task()):
                task.uncancel()
                return progress
            with contextlib.suppress(ServiceError):  # It may have ended just now.
                await reef.pause(search.id)
            said = f"paused; continue it with: {continuing(search)}; end it with: reef stop {search.id}"
        else:
            said = f"the search goes on; follow it with: reef watch {search.id}; end it with: reef stop {search.id}"
        err.print(said, highlight=False)
        raise


def continuing(search: Search) -> str:
    """Return the command that continues a search."""
    return f"reef search --resume {search.id}"


async def look_on(reef: AsyncReef, search: Search) -> Progress:
    """Show a search until it ends, and return its final progress.

    One that runs in this process is shown until its finalists are examined, too.
    """
    local, told = isinstance(reef, LocalReef), False
    with ProgressView(search) as view:
        follower = asyncio.create_task(_follow(reef, search, view))
        try:
            while True:
                progress = await _progress(reef, search.id)
                view.show(progress)
                if progress.state in ENDED and not (local and progress.finishing):
                    return progress
                if progress.state in ENDED and not told:
                    told = True
                    err.print(
                        f"The search is done: {progress.activity}. Ctrl-C leaves that for later.", highlight=False
                    )
                await asyncio.sleep(POLL_S)
        finally:
            await end([follower])


async def _progress(reef: AsyncReef, search: str) -> Progress:
    """Read the progress of a search, retrying while the coordinator is unavailable."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await reef.progress(search)
        except Unavailable:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(POLL_S)


async def _follow(reef: AsyncReef, search: Search, view: ProgressView) -> None:
    async for event in reef.events(search.id):
        view.note(event)


def conclude(progress: Progress, archive: Archive, kernel: Path | None, *, as_json: bool) -> int:
    """Print the result of a search, and return the exit code."""
    if as_json:
        emit_json(_document(progress, archive, kernel))
    elif progress.state is SearchState.FAILED:
        err.print(f"[bold red]The search failed:[/] {progress.reason}", highlight=False)
    else:
        _show(progress, archive, kernel)
    if progress.state is SearchState.FAILED:
        return OUR_FAILURE
    return 0 if archive.elites else NOTHING_CORRECT


def _unfinished(progress: Progress) -> str:
    """Describe what a done search still lacks, and how to get it."""
    examined = f"{progress.examined} of {progress.finalists} finalists are examined"
    lacks = examined if progress.examined < progress.finalists else "its baselines are not measured yet"
    return f"{lacks}; a running service continues with that; without one: reef search --resume {progress.search}"


def _document(progress: Progress, archive: Archive, kernel: Path | None) -> dict[str, object]:
    here, screened = progress.devices[0], progress.screening
    return {
        "search": progress.search,
        "state": progress.state.value,
        "reason": progress.reason,
        "refused_seeds": progress.refused_seeds,
        "device": archive.device,
        "figures": in_words(archive.device, archive.relative_to),
        "evaluations": here.evaluated,
        "equal_plans": progress.equal_plans,
        "correct": here.correct,
        "coverage": here.coverage,
        "qd_score": here.qd_score,
        "best": here.best,
        "provisional": here.provisional,
        "screening": {"dropped": dropped(here.emitters), **screened.model_dump()} if screened else None,
        "finishing": progress.finishing,
        "finalists": progress.finalists,
        "examined": progress.examined,
        "kernel": str(kernel) if kernel else None,
    }


def _show(progress: Progress, archive: Archive, kernel: Path | None) -> None:
    here = progress.devices[0]
    if admitted := next((elite.admitted for elite in archive.elites if elite.admitted), ""):
        err.print(
            f"ADMITTED against mutation testing, so elites may be wrong: {admitted}", highlight=False, markup=False
        )
    if progress.refused_seeds:
        err.print(f"All {progress.refused_seeds}.", highlight=False, markup=False)
    if progress.reason:
        err.print(f"The search is {progress.state.value}: {progress.reason}", highlight=False)
    if progress.finishing:
        err.print(_unfinished(progress), highlight=False)
    out.print(heat_map(archive))
    out.print(elite_table(archive))
    out.print(
        f"{here.evaluated} evaluations{equal_plans_in_words(progress)}, {here.correct} correct; {held_in_words(here)} "
        f"({here.coverage:.0%}); QD score {here.qd_score:.2f}"
    )
    if progress.screening is not None:
        out.print(progress.screening.in_words(dropped(here.emitters)), highlight=False)
    out.print(f"[bold]All figures are {in_words(archive.device, archive.relative_to)}.[/]")
    if kernel:
        out.print(f"The best kernel is in {kernel}")
        following = f"reef export {brief(progress.search)} --out my_kernels"
        out.print(f"Next: {following}, or reef serve for the dashboard", highlight=False)


async def write_kernel(reef: AsyncReef, elite: Elite, search: str, folder: Path) -> Path:
    """Write an elite as a runnable file, and return its path."""
    name, text = await reef.kernel(search, elite.cell, elite.device)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path.resolve()
