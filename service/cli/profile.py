"""`reef profile`: explain the time of a judged kernel on this machine."""

import asyncio
from collections.abc import Iterator
from textwrap import shorten
from typing import Annotated, Any

import typer
from rich.text import Text

from service.certificates.document import Certificate
from service.certificates.profiling import ProfiledPlan, Profiler
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, out, plain
from service.cli.watch import find_search
from service.errors import NotFound
from service.evaluation.figure_labels import provenance
from service.fleet.devices import find_card
from service.settings import Settings
from workers.protocol import KernelProfile

SHOWN_STALLS = 5
"""Maximum number of reasons for stalls in the text; the document has all."""
SOURCE_CHARS = 60
"""Maximum length of a source line in the text."""
SHOWN_OPCODES = 8
"""Maximum number of opcodes in the text."""


def profile(
    elite: Annotated[
        str, typer.Argument(help="Id of a correct candidate; the best elite of the newest search by default.")
    ] = "",
    shape: Annotated[str | None, typer.Option(help="Shape, such as M=4096,N=1024; the first that is timed.")] = None,
    device: Annotated[str | None, typer.Option(help="Device of the verdict; any by default.")] = None,
    variant: Annotated[int | None, typer.Option(help="Index of the variant; any by default.")] = None,
    counters: Annotated[
        bool, typer.Option("--counters/--no-counters", help="Run Nsight Compute, if this machine has it.")
    ] = True,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Explain the time of a judged kernel: its launches, floors, occupancy and hottest instructions.

    On a machine with the card of the verdict its plan is replayed and timed, and Nsight Compute counts where it may.
    Elsewhere the profile is of the machine code alone. Nothing is judged or stored.
    """

    async def taken() -> Certificate:
        async with reach(url, token) as reef:
            candidate = elite
            if not candidate:
                search = await find_search(reef, "")
                leader = await reef.best(search.id, device)
                if leader is None:
                    raise NotFound(f"search {search.id} has no elite yet")
                candidate = leader.candidate
            return Certificate.model_validate(await reef.certificate(candidate, device=device, variant=variant))

    found = asyncio.run(profiled(asyncio.run(taken()), shape, counters=counters))
    if as_json:
        emit_json(document(found))
    else:
        show(found)


def show(found: ProfiledPlan) -> None:
    """Print a profile for people."""
    for line in in_words(found):
        out.print(plain(line), highlight=False)
    for kernel in found.report.kernels:
        out.print(_table(found, kernel), highlight=False)
    for note in found.report.notes:
        out.print(plain(f"Note: {note}"), highlight=False)


async def profiled(certificate: Certificate, shape: str | None, *, counters: bool) -> ProfiledPlan:
    """Profile a kernel on a card of the verdict's class, or without a card if this machine has none."""
    card = find_card(certificate.device) if certificate.device.measures else None
    profiler = Profiler(card=card.number if card else None, data=Settings().measured_dir)
    return await profiler.profile(certificate, shape, counters=counters)


def document(found: ProfiledPlan) -> dict[str, Any]:
    """Return a profile as JSON."""
    lines = {hot.line for kernel in found.report.kernels for hot in kernel.hottest if hot.line is not None}
    return {
        "candidate": found.certificate.origin.candidate,
        "variant": found.certificate.origin.variant,
        "device": found.device.name,
        "measured": found.report.time_us is not None,
        "time_us": found.time_us,
        "required_bytes": found.work.required_bytes,
        "operations": found.work.flops,
        "floors_us": {
            "bandwidth": found.floors.memory_us,
            "operations": found.floors.arithmetic_us,
            "copy": found.report.copy_us,
        },
        "shares": found.shares(),
        "profile": found.report.model_dump(mode="json"),
        "source": {line: found.source_line(line) for line in sorted(lines)},
    }


def in_words(found: ProfiledPlan) -> Iterator[str]:
    """Describe a profile in lines: the call and its floors, then each launch."""
    report, certificate = found.report, found.certificate
    origin = certificate.origin
    yield f"{certificate.operator.name} at {report.shape}: candidate {origin.candidate}, variant {origin.variant}"
    if found.time_us is not None:
        source = "MEASURED here" if report.time_us else f"{provenance(certificate.device.name)} by the verdict"
        yield f"  a call takes {found.time_us:.2f} us, {source} ({found.target.card})"
    shares, floors = found.shares(), found.floors
    work = found.work
    for name, floor_us, said in (
        ("bandwidth", floors.memory_us, f"{_bytes(work.required_bytes)} at the peak bandwidth"),
        ("copy", report.copy_us, "a plain copy of as many bytes, measured here"),
        ("operations", floors.arithmetic_us, f"{work.flops or 0:.3g} operations at the peak rate"),
    ):
        if floor_us:
            share = f", {shares[name]:.0%} of it achieved" if name in shares else ""
            yield f"  {floor_us:.2f} us: {said}{share}"
    for number, kernel in enumerate(report.kernels, 1):
        yield from _launch(number, kernel)


def _launch(number: int, kernel: KernelProfile) -> Iterator[str]:
    where = f" (line {kernel.line})" if kernel.line else ""
    time = f", {kernel.time_us:.2f} us" if kernel.time_us is not None else ""
    yield f"launch {number}: {kernel.function}{where}{time}"
    yield (
        f"  {kernel.programs} programs of {kernel.num_warps} warps; {kernel.registers} registers, {kernel.spill_bytes} "
        f"bytes spilled, {kernel.shared_bytes} bytes of shared memory"
    )
    limiters = " and ".join(kernel.limiters)
    yield (
        f"  occupancy {kernel.occupancy:.0%}: {kernel.resident} programs at a time, limited by {limiters}; "
        f"{kernel.waves:.2f} waves"
    )
    if kernel.classes:
        opcodes = ", ".join(f"{name} {count}" for name, count in [*kernel.opcodes.items()][:SHOWN_OPCODES])
        classes = ", ".join(f"{name} {count}" for name, count in kernel.classes.items())
        yield f"  {sum(kernel.opcodes.values())} instructions: {classes} ({opcodes}, ...)"
    if kernel.counters:
        yield f"  counters: {', '.join(f'{name} {value:.6g}' for name, value in kernel.counters.items())}"
    if kernel.stalls:
        shown = [*kernel.stalls.items()][:SHOWN_STALLS]
        yield f"  warps wait for: {', '.join(f'{name} {share:.0%}' for name, share in shown)}"


def _table(found: ProfiledPlan, kernel: KernelProfile) -> FoldedTable:
    """Return the hottest instructions beside their source; by loops and issue cycles where nothing was counted."""
    counted = any(hot.samples is not None for hot in kernel.hottest)
    total = sum(hot.samples or 0 for hot in kernel.hottest)
    table = FoldedTable("samples" if counted else "in loops", "instruction", "line", "source", box=None, pad_edge=False)
    for hot in kernel.hottest:
        cost = f"{hot.samples or 0} ({(hot.samples or 0) / total:.0%}) {hot.stall}" if counted else str(hot.depth)
        many = f" ({hot.count} such)" if hot.count > 1 else ""
        line = "" if hot.line is None else str(hot.line)
        source = shorten(found.source_line(hot.line), SOURCE_CHARS, placeholder=" ...")
        table.add_row(Text(cost), plain(hot.text + many), Text(line), plain(source))
    return table


def _bytes(size: int | None) -> str:
    return f"{(size or 0) / 1e6:.3g} MB"
