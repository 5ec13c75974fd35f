"""`reef best`, `reef export` and `reef plan show`: show and export the results of searches."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelreef import AsyncReef
from kernelreef.models import Candidate, Elite, Search
from kernelreef.packages import Package
from service.analysis.trajectories import Which
from service.cli.connection import AsJson, CandidateId, NewestSearch, SearchDevice, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, out, plain
from service.cli.files import begin
from service.cli.heat_map import elite_table
from service.cli.watch import find_search, write_kernel
from service.errors import InvalidInput, NotFound
from service.evaluation.figure_labels import best_baselines, in_words
from workers.protocol import Bundle, Readings, Report
from workers.protocol.words import describe

Backward = Annotated[str | None, typer.Option(help="For a package: a search for the operator's gradients.")]
ImportName = Annotated[str | None, typer.Option(help="For a package: its import name; OPERATOR_kernels by default.")]
Against = Annotated[
    str | None,
    typer.Option(help="For a package: a search of this operator at other shapes, to time the package beside."),
]

plan = typer.Typer(help="Show launch plans.", no_args_is_help=True)


def best(
    search: NewestSearch = "",
    write: Annotated[Path | None, typer.Option("--out", help="Also write the best kernel into this folder.")] = None,
    device: SearchDevice = None,
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
                said = (
                    f"Examination of the best one as a finalist: {leader.finalist.standing}. {leader.finalist.reason}"
                )
                out.print(said.strip(), highlight=False, markup=False)
            if leader.admitted:
                said = f"ADMITTED against mutation testing, so it may be wrong: {leader.admitted}"
                out.print(said, highlight=False, markup=False)
            if leader.outdated:
                said = f"It was judged by the older protocol {leader.protocol_version}; this release's checks differ."
                out.print(said, highlight=False)
        if path:
            out.print(f"The best kernel is in {path}")
        else:
            out.print(candidate.source, highlight=False, markup=False)

    asyncio.run(shown())


def export(
    search: NewestSearch = "",
    write: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for a package, or a .zip file; OPERATOR_SEARCH.zip by default."),
    ] = None,
    device: SearchDevice = None,
    backward: Backward = None,
    name: ImportName = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option(help="For a package: a further shape to time kernels at, such as M=8,N=4096; can be repeated."),
    ] = None,
    against: Against = None,
    trajectories: Annotated[
        bool, typer.Option("--trajectories", help="Export the search's steps, as .jsonl or .parquet.")
    ] = False,
    which: Annotated[
        Which, typer.Option("--filter", help="Steps to export: all, or those with certain gains.")
    ] = "all",
    rewards: Annotated[bool, typer.Option("--rewards", help="Only steps with rewards.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Export a search: its fastest elites as a Python package, all elites as a zip file, or its steps."""
    named = [_sizes(text) for text in shapes or ()]

    async def exported() -> tuple[Search, Path, Package | None]:
        async with reach(url, token) as reef:
            found = await find_search(reef, search)
            if trajectories:
                path = write or Path(f"{found.operator}_{found.id}.jsonl")
                return found, await write_steps(reef, found.id, path, which, rewards=rewards), None
            if write is None or write.suffix == ".zip":
                return found, await reef.export(found.id, write or Path(f"{found.operator}_{found.id}.zip")), None
            package = await reef.package(
                found.id, write, device=device, backward=backward, name=name, shapes=named, against=against
            )
            return found, write.resolve(), package

    found, path, package = asyncio.run(exported())
    if as_json:
        extra = {} if package is None else package_document(package)
        emit_json({"search": found.id, "operator": found.operator, "file": str(path), **extra})
    elif package is not None:
        print_package(package, path)
    else:
        out.print(f"The results of search {found.id} are in {path}", highlight=False)


def _sizes(text: str) -> dict[str, int]:
    """Parse the sizes of a shape.

    Raises:
        InvalidInput: If the text is no list of sizes.
    """
    try:
        return {name.strip(): int(size) for name, _, size in (part.partition("=") for part in text.split(","))}
    except ValueError:
        raise InvalidInput(f"'{text}' is no shape: write its sizes, such as M=8,N=4096", "--shapes") from None


@plan.command("show")
def show(
    candidate: CandidateId,
    variant: Annotated[int, typer.Option(help="Index of the variant.")] = 0,
    shape: Annotated[int, typer.Option(help="Index of the plan, from 0; all by default.")] = -1,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Describe a candidate's launch plans in words."""

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
        reef: Client of the service that has the search.
        search: Id of the search.
        path: The file; its name ends in `.jsonl` or `.parquet`.
        which: Filter of the steps.
        rewards: True to fill in rewards.

    Returns:
        Absolute path of the file.

    Raises:
        InvalidInput: If the name has another ending, or Parquet needs a package that is not installed.
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
    """Split a stream into lines at newlines only, because NDJSON strings may hold other line ends of Python."""
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
        "compiler": leader.compiler,
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


def package_document(package: Package) -> dict[str, object]:
    """Describe a package as JSON: the candidate per shape, and the reasons for omissions."""
    return {
        "package": package.name,
        "serving": dict(package.serving),
        "training": dict(package.training),
        "refusals": list(package.refusals),
        "note": package.note,
        "stages_s": {name: dict(stages) for name, stages in package.stages_s.items()},
    }


def print_package(package: Package, path: Path) -> None:
    """Print the candidate per shape, the reasons for omissions, and how to install the package."""
    table = FoldedTable("shape", "candidate", "with gradients", box=None, pad_edge=False)
    for shape in {**package.serving, **package.training}:
        kernels = (package.serving.get(shape, "PyTorch"), package.training.get(shape, "PyTorch"))
        table.add_row(Text(shape), *map(Text, kernels))
    out.print(table, highlight=False)
    for refusal in package.refusals:
        out.print(Text("left out: ", "yellow") + plain(refusal))
    if package.note:
        out.print(Text("note: ", "yellow") + plain(package.note))
    out.print(f"The package {package.name} is in {path}: pip install {path}", highlight=False, markup=False)
