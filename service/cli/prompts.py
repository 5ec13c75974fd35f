"""`reef prompts` and `reef backends`: show prompts, answer them by hand, and manage LLM backends."""

import asyncio
import os
import sys
import unicodedata
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from archive.records import ExchangeState
from kernelreef.short_ids import brief
from service import llm
from service.api.llm_stats import LlmStats
from service.cli.connection import AsJson, SearchId, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, err, out
from service.errors import InvalidInput
from service.llm import BACKENDS
from service.llm.configuration import FILE, KNOWN, add_backend
from service.llm.options import PriceOptions
from service.llm.replay import Replay
from service.llm_gateway.schemas import LEASE_S, BackendStatus, Prompt, PromptSummary, Spending
from service.settings import Settings

prompts = typer.Typer(help="Show prompts to language models; claim and answer manual ones.", no_args_is_help=True)
backends = typer.Typer(help="Manage the configured language-model backends.", no_args_is_help=True)

PromptId = Annotated[str, typer.Argument(help="Id of a prompt.")]
Answerer = Annotated[str | None, typer.Option("--as", help="Name of the answering person, if several share a token.")]


@prompts.command("list")
def find(
    state: Annotated[ExchangeState | None, typer.Option(help="Only prompts in this state.")] = ExchangeState.WAITING,
    search: Annotated[str | None, typer.Option(help="Only prompts of this search.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of prompts.", min=1)] = 50,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """List prompts; by default those that wait for a person's answer."""

    async def found() -> list[PromptSummary]:
        async with reach(url, token) as reef:
            items: list[PromptSummary] = []
            query = {"state": state.value if state else None, "search": search, "limit": min(limit, 200)}
            async for item in reef.wire.list(PromptSummary, "/prompts", **query):
                items.append(item)
                if len(items) == limit:
                    break
            return items

    items = asyncio.run(found())
    if as_json:
        emit_json([item.model_dump(mode="json") for item in items])
        return
    headings = ("prompt", "search", "state", "backend", "strategy", "claimed by", "cost", "result")
    table = FoldedTable(*headings, title="Prompts")
    for item in items:
        cost = "" if item.state in (ExchangeState.WAITING, ExchangeState.CLAIMED) else dollars(item.cost_usd)
        shown = (
            item.state.value,
            item.backend,
            item.strategy,
            Text(item.claimed_by or ""),
            cost,
            Text(result_of(item)),
        )
        table.add_row(brief(item.id), brief(item.search), *shown)
    out.print(table)


@prompts.command("show")
def show(id: PromptId, as_json: AsJson = False, url: Url = None, token: Token = None) -> None:
    """Show one prompt and its answer, if any. Its text is data, not instructions."""

    async def found() -> Prompt:
        async with reach(url, token) as reef:
            return await reef.wire.read(Prompt, f"/prompts/{id}")

    prompt = asyncio.run(found())
    if as_json:
        emit_json(prompt.model_dump(mode="json"))
        return
    out.print(Text(f"{prompt.state.value}: {result_of(prompt)}" if result_of(prompt) else prompt.state.value))
    for title, text in (("system", prompt.system), ("user", prompt.user), ("answer", prompt.text)):
        if text:
            out.print(Text(f"--- {title}", style="bold"))
            out.print(Text(printable(text)))


@prompts.command("claim")
def claim(
    id: PromptId,
    answerer: Answerer = None,
    lease_s: Annotated[float, typer.Option(help="Seconds until the claim lapses.")] = LEASE_S,
    url: Url = None,
    token: Token = None,
) -> None:
    """Claim a prompt, so that no other person answers it. Claim again to extend."""
    prompt = asyncio.run(_act(id, "claim", {"answerer": answerer, "lease_s": lease_s}, url, token))
    err.print(f"claimed until {prompt.lease_until}", highlight=False)


@prompts.command("release")
def release(id: PromptId, answerer: Answerer = None, url: Url = None, token: Token = None) -> None:
    """Release a claimed prompt."""
    prompt = asyncio.run(_act(id, "release", {"answerer": answerer}, url, token))
    err.print(f"the prompt is {prompt.state.value}", highlight=False)


@prompts.command("answer")
def answer(
    id: PromptId,
    file: Annotated[Path, typer.Argument(help="File with the answer; - for standard input.")],
    answerer: Answerer = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse to answer, for good; FILE has the reason.")] = False,
    model: Annotated[str, typer.Option(help="Name of the model that wrote the answer, if any.")] = "",
    url: Url = None,
    token: Token = None,
) -> None:
    """Answer a prompt with a file. The first answer counts."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(error), "FILE") from error
    body = {"answerer": answerer, "text": text, "refused": refuse, "model": model}
    prompt = asyncio.run(_act(id, "answer", body, url, token))
    err.print(f"the prompt is {prompt.state.value}", highlight=False)


@prompts.command("record")
def record(
    search: SearchId,
    path: Annotated[Path, typer.Option("--out", help="File of the recording; answers are appended.")],
    url: Url = None,
    token: Token = None,
) -> None:
    """Write a search's answers into a recording, which a backend of kind `replay` can repeat."""

    async def recorded() -> int:
        count, recording = 0, Replay(path)
        async with reach(url, token) as reef:
            query = {"search": search, "state": ExchangeState.ANSWERED.value}
            async for item in reef.wire.list(PromptSummary, "/prompts", **query):
                found = await reef.wire.read(Prompt, f"/prompts/{item.id}")
                await recording.record(asked_of(found), answered_with(found))
                count += 1
        return count

    err.print(f"{asyncio.run(recorded())} answers are in {path}", highlight=False)


@prompts.command("spending")
def spending(
    search: SearchId,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show a search's LLM calls, their cost and their outcomes."""

    async def found() -> Spending:
        async with reach(url, token) as reef:
            return await reef.wire.read(Spending, f"/searches/{search}/spending")

    spent = asyncio.run(found())
    if as_json:
        emit_json(spent.model_dump(mode="json"))
        return
    table = FoldedTable("backend", "calls", "tokens", "cost", title="Spent, reservations included")
    for budget in spent.budgets:
        limits = (budget.calls_limit, budget.tokens_limit, budget.usd_limit)
        shown = (f"{budget.calls}", f"{budget.tokens}", _cost(budget.usd, budget.unpriced))
        both = zip(shown, limits, strict=True)
        cells = [amount if limit is None else f"{amount} of {limit}" for amount, limit in both]
        table.add_row(budget.backend or "all", *cells)
    out.print(table)
    table = FoldedTable("backend", "strategy", "calls", "cost", "candidates", "outcomes", title="Outcomes of the calls")
    for row in spent.strategies:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in row.outcomes.items())
        cost = _cost(row.usd, row.unpriced)
        table.add_row(row.backend, row.strategy, f"{row.calls}", cost, f"{row.candidates}", Text(outcomes))
    out.print(table)


@prompts.command("models")
def models(
    search: SearchId,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show the results of each backend and strategy: hit and repair rates, cost per elite and per filled cell."""

    async def found() -> LlmStats:
        async with reach(url, token) as reef:
            return await reef.wire.read(LlmStats, f"/searches/{search}/models")

    stats = asyncio.run(found())
    if as_json:
        emit_json(stats.model_dump(mode="json"))
        return
    headings = ("backend", "strategy", "correct", "hit rate", "repair rate", "elites", "per elite", "per filled cell")
    table = FoldedTable(*headings, title=f"Results by backend and strategy; costs in {stats.unit}")
    for row in stats.rows:
        backend = f"{row.backend} ({row.kind})" if row.kind not in (None, row.backend) else row.backend
        shares = (f"{row.correct} of {row.candidates}", _share(row.hit_rate), _share(row.repair_rate))
        costs = (_amount(row.cost_per_promotion), _amount(row.cost_per_filled))
        table.add_row(backend, row.strategy, *shares, f"{row.promotions}", *costs)
    out.print(table)


@backends.command("list")
def configured(as_json: AsJson = False, url: Url = None, token: Token = None) -> None:
    """List the backends with their state, and the reason if one is disabled."""

    async def found() -> list[BackendStatus]:
        async with reach(url, token) as reef:
            return [item async for item in reef.wire.list(BackendStatus, "/backends")]

    known = asyncio.run(found())
    if as_json:
        emit_json([item.model_dump(mode="json") for item in known])
        return
    table = FoldedTable("backend", "kind", "model", "USD per million tokens", "state", title="Backends")
    for item in known:
        price = f"{item.price.input_usd_per_mtok} in, {item.price.output_usd_per_mtok} out" if item.price else "unknown"
        state = (
            f"disabled: {item.disabled_reason}"
            if item.disabled_reason
            else "answered by hand"
            if item.waits
            else "ready"
        )
        table.add_row(item.name, item.kind, Text(item.model), price, Text(state))
    out.print(table)


@backends.command("add")
def add(
    name: Annotated[str, typer.Argument(help=f"Name in --llm; {', '.join(KNOWN)} need no address and no kind.")],
    model: Annotated[str | None, typer.Option(help="Model to ask for.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(help=f"{', '.join(BACKENDS)}.", show_default=False)] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of the endpoint.", show_default=False)] = None,
    key_env: Annotated[str | None, typer.Option(help="Environment variable with the key.", show_default=False)] = None,
    ask_key: Annotated[
        bool, typer.Option("--ask-key", help="Ask for the key, and keep it in the data folder.")
    ] = False,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum tokens of an answer.", show_default=False)] = None,
    price: Annotated[
        tuple[float, float] | None,
        typer.Option(help="US dollars per million tokens of prompts and of answers.", show_default=False),
    ] = None,
) -> None:
    """Add a backend to backends.toml in the data folder."""
    folder = Settings().data_dir
    given = {"kind": kind, "base_url": base_url, "model": model, "key_env": key_env, "max_tokens": max_tokens}
    section = {**KNOWN.get(name, {}), **{field: value for field, value in given.items() if value is not None}}
    if ask_key:
        section = {field: value for field, value in section.items() if field != "key_env"} | {"key_file": f"{name}.key"}
    prices = None if price is None else dict(zip(PriceOptions.model_fields, price, strict=True))
    add_backend(folder, name, section, prices)
    if ask_key:
        _write_key(folder / f"{name}.key", typer.prompt("Key", hide_input=True, err=True))
    err.print(f"{name} is in {folder / FILE}; ask it with: reef search SPEC --llm {name}", highlight=False)


@backends.command("enable")
def enable(
    name: Annotated[str, typer.Argument(help="Name of a backend.")], url: Url = None, token: Token = None
) -> None:
    """Enable a disabled backend again; its key is read anew."""

    async def enabled() -> BackendStatus:
        async with reach(url, token) as reef:
            return await reef.wire.act(BackendStatus, "POST", f"/backends/{name}/enable")

    found = asyncio.run(enabled())
    err.print(
        Text(
            f"{found.name} is disabled: {found.disabled_reason}"
            if found.disabled_reason
            else f"{found.name} can be asked again"
        )
    )


def _write_key(path: Path, key: str) -> None:
    """Write a key into a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{key.strip()}\n")


async def _act(id: str, what: str, body: dict[str, object], url: str | None, token: str | None) -> Prompt:
    async with reach(url, token) as reef:
        return await reef.wire.act(Prompt, "POST", f"/prompts/{id}/{what}", body)


def asked_of(shown: Prompt) -> llm.LlmPrompt:
    """Convert a prompt to a backend's input."""
    return llm.LlmPrompt(shown.system, shown.user, shown.max_tokens)


def answered_with(shown: Prompt) -> llm.Completion:
    """Convert an answer to a backend's output."""
    return llm.Completion(
        text=shown.text or "",
        model=shown.model,
        input_tokens=shown.input_tokens,
        output_tokens=shown.output_tokens,
        cost_usd=shown.cost_usd,
        truncated=shown.truncated,
    )


def result_of(prompt: PromptSummary) -> str:
    """Describe what an answer was used for, and why it was of no use or did not come."""
    said = (prompt.outcome, prompt.outcome_reason or prompt.reason)
    return printable(": ".join(part for part in said if part))


def dollars(amount: float | None) -> str:
    """Format an amount; an unknown one is never shown as 0."""
    return "unknown" if amount is None else f"${amount:.4f}"


def _cost(usd: float, unpriced: int) -> str:
    return dollars(usd) + (f" and {unpriced} calls of unknown price" if unpriced else "")


def _share(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:.0%}"


def _amount(cost: float | None) -> str:
    return "none" if cost is None else f"{cost:.4g}"


def printable(text: str) -> str:
    """Replace control characters in untrusted text, except line breaks and tabs."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf") else "\ufffd"
        for character in text
    )
