"""`reef certificate` and `reef verify`: what a verdict rests on, and whether it holds here too."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from service.certificates.comparison import StepOutcome, Verification, VerificationStep
from service.certificates.document import MAX_BYTES, Certificate, LoadedCertificate, read
from service.certificates.verifier import Verifier
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import emit_json, out
from service.errors import InvalidInput
from service.evaluation.executor_client import COMMAND
from service.fleet.devices import find_card
from service.settings import Settings

DOES_NOT_HOLD = 4
"""Exit status where something differs, or too little could be repeated."""
IN_PART = 5
"""Exit status where nothing differs, and something could not be repeated."""
_COLOURS = {StepOutcome.REPEATED: "green", StepOutcome.DIFFERS: "red", StepOutcome.NOT_TRIED: "yellow"}


def certificate(
    candidate: Annotated[str, typer.Argument(help="Id of a candidate that was judged correct.")],
    write: Annotated[Path | None, typer.Option("--out", help="The file; printed if left out.")] = None,
    device: Annotated[str | None, typer.Option(help="Where it was judged; any if left out.")] = None,
    variant: Annotated[int | None, typer.Option(help="Which of its variants; any if left out.")] = None,
    source: Annotated[bool, typer.Option("--source/--no-source", help="Whether its source is in it.")] = True,
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


def verify(
    path: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A file that `reef certificate` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Repeat a CERTIFICATE on this machine. What cannot be repeated here is said with the reason."""
    found = _read(path)
    done = asyncio.run(_verifier(found.certificate).verify(found))
    if as_json:
        emit_json(_document(found, done))
    else:
        _print(found, done)
    raise typer.Exit(DOES_NOT_HOLD if not done.holds else IN_PART if done.untried else 0)


def _verifier(certificate: Certificate) -> Verifier:
    device = certificate.device
    card = find_card(device) if device.measures else 0
    return Verifier(cards={} if card is None else {device.name: card}, data=Settings().measured_dir, command=COMMAND)


def _read(path: Path) -> LoadedCertificate:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{path} is longer than the {MAX_BYTES} bytes that are read", "CERTIFICATE")
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
    out.print(_plain(found.certificate.title), highlight=False)
    for step in done.steps:
        out.print(Text(f"{step.name}: {step.found.value}", _COLOURS[step.found]), highlight=False)
        if step.reason:
            out.print(Text("  ") + _plain(step.reason), highlight=False)
        if step.figures:
            table = Table("", "certificate", "here", box=None, pad_edge=False)
            for each in step.figures:
                table.add_row(Text("  ") + _plain(each.name), _plain(each.then), _plain(each.now))
            out.print(table, highlight=False)
    said = "it holds on this machine" if done.holds else "it does NOT hold on this machine"
    if done.holds and done.untried:
        said = f"nothing differs on this machine, but NOT everything was repeated: {', '.join(done.untried)}"
    out.print(f"certificate {found.digest[:16]}: {said}", highlight=False)


def _plain(text: str) -> Text:
    """Text of a stranger without what could steer a terminal, or be taken for markup."""
    return Text("".join(char if char.isprintable() else "?" for char in text))
