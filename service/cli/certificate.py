"""`reef certificate` and `reef verify`: write the evidence for a verdict, and repeat it on another machine."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from service.certificates.comparison import StepOutcome, Verification, VerificationStep
from service.certificates.document import MAX_BYTES, Certificate, LoadedCertificate, read
from service.certificates.verifier import Verifier
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, out, plain
from service.errors import InvalidInput
from service.evaluation.executor_client import COMMAND
from service.evaluation.figure_labels import stamp_of
from service.fleet.devices import find_card
from service.settings import Settings

DOES_NOT_HOLD = 4
"""Exit status if something differs, or too little could be repeated."""
IN_PART = 5
"""Exit status if nothing differs, but something could not be repeated."""
_COLOURS = {StepOutcome.REPEATED: "green", StepOutcome.DIFFERS: "red", StepOutcome.NOT_TRIED: "yellow"}


def certificate(
    candidate: Annotated[str, typer.Argument(help="Id of a correct candidate.")],
    write: Annotated[Path | None, typer.Option("--out", help="File to write; standard output by default.")] = None,
    device: Annotated[str | None, typer.Option(help="Device of the verdict; any by default.")] = None,
    variant: Annotated[int | None, typer.Option(help="Index of the variant; any by default.")] = None,
    source: Annotated[bool, typer.Option("--source/--no-source", help="Include the candidate's source.")] = True,
    url: Url = None,
    token: Token = None,
) -> None:
    """Write a certificate: everything a verdict rests on, as one JSON document."""

    async def taken() -> Certificate:
        async with reach(url, token) as reef:
            document = await reef.certificate(candidate, device=device, variant=variant, source=source)
            return Certificate.model_validate(document)

    found = asyncio.run(taken())
    if write is None:
        out.print(found.text(), highlight=False, markup=False, soft_wrap=True)
        return
    try:
        write.write_text(found.text() + "\n")
    except OSError as error:
        raise InvalidInput(f"{write}: {error.strerror}", "--out") from error
    out.print(f"{found.title}\ncertificate {found.id} is in {write}", highlight=False, markup=False)
    out.print(f"Examination as a finalist: {stamp_of(found.examination).standing}", highlight=False)


def verify(
    path: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A file that `reef certificate` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Repeat a CERTIFICATE on this machine. Steps that cannot be repeated are listed with the reason."""
    found = _read(path)
    done = asyncio.run(_verifier(found.certificate).verify(found))
    if as_json:
        emit_json(_document(found, done))
    else:
        _print(found, done)
    raise typer.Exit(DOES_NOT_HOLD if not done.holds else IN_PART if done.untried else 0)


def _verifier(certificate: Certificate) -> Verifier:
    device = certificate.device
    card = find_card(device) if device.measures else None
    number = card.number if card else None if device.measures else 0
    return Verifier(
        cards={} if number is None else {device.name: number}, data=Settings().measured_dir, command=COMMAND
    )


def _read(path: Path) -> LoadedCertificate:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{path} is longer than the maximum of {MAX_BYTES} bytes", "CERTIFICATE")
        return read(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}", "CERTIFICATE") from error


def _document(found: LoadedCertificate, done: Verification) -> dict[str, Any]:
    return {
        "certificate": found.digest,
        "title": found.certificate.title,
        "holds": done.holds,
        "untried": list(done.untried),
        "device": done.device.name if done.device else None,
        "steps": [_step(step) for step in done.steps],
    }


def _step(step: VerificationStep) -> dict[str, Any]:
    figures = [{"name": each.name, "then": each.then, "now": each.now} for each in step.figures]
    return {"name": step.name, "found": step.found.value, "reason": step.reason, "figures": figures}


def _print(found: LoadedCertificate, done: Verification) -> None:
    out.print(plain(found.certificate.title), highlight=False)
    for step in done.steps:
        out.print(Text(f"{step.name}: {step.found.value}", _COLOURS[step.found]), highlight=False)
        if step.reason:
            out.print(Text("  ") + plain(step.reason), highlight=False)
        if step.figures:
            table = FoldedTable("", "certificate", "here", box=None, pad_edge=False)
            for each in step.figures:
                table.add_row(Text("  ") + plain(each.name), plain(each.then), plain(each.now))
            out.print(table, highlight=False)
    said = "it holds on this machine" if done.holds else "it does NOT hold on this machine"
    if done.holds and done.untried:
        said = f"nothing differs on this machine, but NOT everything was repeated: {', '.join(done.untried)}"
    out.print(f"certificate {found.digest[:16]}: {said}", highlight=False)
