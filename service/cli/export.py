"""`reef best`, `reef export` and `reef plan show`: look at what searches have found, and take it away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from kernelreef import AsyncReef
from kernelreef.models import Candidate, Elite, Search
from kernelreef.packages import Package
from service.analysis.trajectories import Which
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import emit_json, out
from service.cli.files import begin
from service.cli.heat_map import elite_table
from service.cli.package import package_document, print_package
from service.cli.watch import find_search, write_kernel
from service.errors import InvalidInput, NotFound
from service.evaluation.figure_labels import best_baselines, in_words
from workers.protocol import Bundle, Readings, Report
from workers.protocol.words import describe

plan = typer.Typer(help="Show launch plans.", no_args_is_help=True)

WhichSearch = Annotated[str, typer.Argument(help="Id of a search; the newest if left out.")]


def best(
    search: WhichSearch = "",
    write: Annotated[Path | None, typer.Option("--out", help="Also write the best kernel into this folder.")] = None,
    device: Annotated[str | None, typer.Option(help="Which of its devices; the first if left out.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show the best elites of a search."""

    async def shown() -> None:
        async with reach(url, token) as reef:
            found = await find_search(reef, search)
            leader = await reef.best(found.id, device)
            if leader is None:
                raise NotFound(f"search {found.id} has no elite yet")
            path = await write_kernel(reef, leader, found.id, write) if write else None
            candidate = await reef.candidate(leader.candidate)
            if as_json:
                emit_json(_document(found, leader, candidate, path))
                return
            out.print(elite_table(await reef.archive(found.id, device)))
            if leader.finalist is not None:
                said = f"As a finalist the best one is: {leader.finalist.standing}. {leader.finalist.reason}"
                out.print(said.strip(), highlight=False, markup=False)
            if leader.outdated:
                said = f"It was judged by protocol {leader.protocol_version}; this release has other checks."
                out.print(said, highlight=False)
        if path:
            out.print(f"The best kernel is in {path}")
        else:
            out.print(candidate.source, highlight=False, markup=False)

    asyncio.run(shown())


def export(
    search: WhichSearch = "",
    write: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for a package, or a .zip file; OPERATOR_SEARCH.zip if left out."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="For a package: which of its devices; the first if left out.")
    ] = None,
    backward: Annotated[
        str | None, typer.Option(help="For a package: a search of the operator with gradients.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="For a package: what to import; OPERATOR_kernels if left out.")
    ] = None,
    trajectories: Annotated[bool, typer.Option("--trajectories", help="Its steps, as .jsonl or .parquet.")] = False,
    which: Annotated[Which, typer.Option("--filter", help="Of the steps: all, or certain gains.")] = "all",
    rewards: Annotated[bool, typer.Option("--rewards", help="Steps with rewards only.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Write a search's fastest elites as a package to install, all that it found into a zip file, or its steps."""

    async def exported() -> tuple[Search, Path, Package | None]:
        async with reach(url, token) as reef:
            found = await find_search(reef, search)
            if trajectories:
                path = write or Path(f"{found.operator}_{found.id}.jsonl")
                return found, await write_steps(reef, found.id, path, which, rewards=rewards), None
            if write is None or write.suffix == ".zip":
                return found, await reef.export(found.id, write or Path(f"{found.operator}_{found.id}.zip")), None
            package = await reef.package(found.id, write, device=device, backward=backward, name=name)
            return found, write.resolve(), package

    found, path, package = asyncio.run(exported())
    if as_json:
        told = {} if package is None else package_document(package)
        emit_json({"search": found.id, "operator": found.operator, "file": str(path), **told})
    elif package is not None:
        print_package(package, path)
    else:
        out.print(f"Everything that search {found.id} found is in {path}", highlight=False)


@plan.command("show")
def show(
    candidate: Annotated[str, typer.Argument(help="Id of a candidate.")],
    variant: Annotated[int, typer.Option(help="Which of its variants.")] = 0,
    shape: Annotated[int, typer.Option(help="Which of its plans, from 0; all if left out.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole bundle.")] = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Say in words what a candidate's plans will do."""

    async def shown() -> None:
        async with reach(url, token) as reef:
            bundle = Bundle.model_validate(await reef.bundle(candidate, variant))
            if as_json:
                emit_json(bundle.model_dump(mode="json"))
                return
            if shape >= len(bundle.plans):
                raise InvalidInput(f"the bundle has {len(bundle.plans)} plans, numbered from 0", "--shape")
            variants = (await reef.candidate(candidate)).variants
        plans = next(item for item in variants if item.index == variant).plans
        for index in range(len(bundle.plans)) if shape < 0 else [shape]:
            for line in describe(bundle, index, Readings.model_validate(plans[index].readings)):
                out.print(line, highlight=False, markup=False)
            out.print()

    asyncio.run(shown())


async def write_steps(reef: AsyncReef, search: str, path: Path, which: Which, *, rewards: bool) -> Path:
    """Write a search's trajectories into a file, which appears when it is complete.

    Args:
        reef: Where the search is.
        search: Its id.
        path: The file; its name ends in `.jsonl` or `.parquet`.
        which: Which steps.
        rewards: Whether to fill in rewards.

    Returns:
        Where it is.

    Raises:
        BadInput: If the name ends otherwise, or Parquet needs a package that is not there.
    """
    part = path.with_name(f"{path.name}.part")
    address = f"/searches/{search}/trajectories?filter={which}&rewards={str(rewards).lower()}"
    try:
        with begin(part, path.name) as file:
            async with reef.wire.stream(address, {}, None) as answer:
                async for line in lines_of(answer.aiter_bytes()):
                    file.write(line)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path.resolve()


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Lines as NDJSON means them: strings may hold what Python takes for the end of a line."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


def _document(search: Search, leader: Elite, candidate: Candidate, path: Path | None) -> dict[str, object]:
    report = next((report for report in candidate.reports if report["job"] == leader.job), None)
    return {
        "search": search.id,
        "operator": search.operator,
        "device": leader.device,
        "candidate": leader.candidate,
        "variant": leader.variant,
        "plan": leader.bundle,
        "speedup": leader.speedup.model_dump(),
        "figures": in_words(leader.device),
        "baselines": best_baselines(Report.model_validate(report)) if report else {},
        "coordinates": {name: place.model_dump() for name, place in leader.coordinates.items()},
        "source": candidate.source,
        "protocol_version": leader.protocol_version,
        "outdated": leader.outdated,
        "finalist": leader.finalist.model_dump() if leader.finalist else None,
        "file": str(path) if path else None,
    }
