"""Survey of this machine: its sandbox, its tools, and its cards. Prints one JSON object.

    python -m workers survey

A process of its own, because looking at a card opens it. What cannot be tried is said, with the reason.
"""

import argparse
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Sequence
from itertools import count

from workers import driver, sandbox
from workers.assembler.ptx.tools import kept_tools, own_tool
from workers.driver_tool import maximum_clocks
from workers.errors import ToolMissing, WorkerError
from workers.protocol.survey import CardSurvey, Survey
from workers.safe_python import PYTHON
from workers.sanitizer import find_sanitizer

PACKAGES = ("kernelreef", "torch", "triton", "cuda-bindings", "liger-kernel")
"""Packages that decide about verdicts and figures."""
PROBE_BYTES = 4096
"""Memory that is written and read to see whether something works."""
WRITTEN, REPLAYED = 0x5A, 0xA5
"""Values written to it: by an ordinary call, and by a graph."""
ASK_S = 60.0
"""Seconds for another process to look; on a host that has just started it opens the card for the first time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the survey; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.survey", description=__doc__.splitlines()[0])
    parser.add_argument("--read", nargs=2, metavar=("CARD", "HANDLE"), help="print a byte of another process's memory")
    options = parser.parse_args(arguments)
    if options.read is not None:
        sys.stdout.write(f"{_first_byte(int(options.read[0]), bytes.fromhex(options.read[1]))}\n")
    else:
        sys.stdout.write(survey().model_dump_json() + "\n")
    return 0


def survey() -> Survey:
    """Look at everything. The jail comes first, because no process that has opened a card may fork."""
    jailed = _jail()
    cards, no_card = _cards()
    return Survey(jail=jailed, versions=_versions(), cards=cards, no_card=no_card)


def _jail() -> str:
    try:
        return sandbox.probe()
    except WorkerError as error:
        return f"none: {error}"


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    sanitizer = find_sanitizer()
    return {
        **versions,
        "ptxas": _ptxas(),
        "compute-sanitizer": "not installed: finalists are not sanitised" if sanitizer is None else sanitizer.version,
    }


def _ptxas() -> str:
    """Return the installed Triton's build for sm_90, and how many others this host keeps."""
    kept = len(list(kept_tools().glob("*/ptxas*")))
    others = f", and {kept} kept" if kept else ""
    try:
        return own_tool(90)[0].version + others
    except ToolMissing:
        return "not installed" + others


def _cards() -> tuple[tuple[CardSurvey, ...], str]:
    """The cards that can be opened, and what is to be said of others: one whose memory is full hides none after it."""
    cards: list[CardSurvey] = []
    closed: list[str] = []
    for number in count():
        try:
            driver.address_of(number)
        except (ToolMissing, driver.DriverError) as error:
            if number == 0:
                closed.append(f"not tried: {error}")
            break
        try:
            cards.append(_card(number))
        except driver.DriverError as error:
            closed.append(f"card {number} cannot be opened: {error}")
    return tuple(cards), "; ".join(closed)


def _card(number: int) -> CardSurvey:
    card = driver.open_card(number)
    sheet = maximum_clocks(card.address).added_to(card.sheet)
    return CardSurvey(
        number=number,
        device=sheet.device_class,
        sheet=sheet,
        driver=card.versions["driver"],
        cuda=card.versions["cuda"],
        sharing=_try_sharing(number),
        graphs=_try_graph(),
    )


def _try_sharing(number: int) -> str:
    """Try if another process sees data that this one wrote to the card."""
    try:
        pointer = driver.allocate(PROBE_BYTES)
        stream = driver.make_stream()
        driver.set_bytes(stream, pointer, WRITTEN, PROBE_BYTES)
        driver.synchronise(stream)
        exported = driver.export_memory(pointer).hex()
    except driver.DriverError as error:
        return f"fails: {error}"
    command = (*PYTHON, "-m", "workers.survey", "--read", str(number), exported)
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False)
    except subprocess.TimeoutExpired:
        return f"fails: the other process gave no answer in {ASK_S:g} s"
    if answer.returncode != 0:
        return f"fails: {(answer.stderr.strip().splitlines() or ['the other process died'])[-1]}"
    return "works" if answer.stdout.strip() == str(WRITTEN) else f"fails: it read {answer.stdout.strip()!r}"


def _first_byte(number: int, exported: bytes) -> int:
    driver.open_card(number)
    return driver.read(driver.import_memory(exported), 1)[0]


def _try_graph() -> str:
    """Try if a captured graph replays correctly."""
    try:
        pointer, stream = driver.allocate(PROBE_BYTES), driver.make_stream()
        graph = driver.capture(stream, lambda where: driver.set_bytes(where, pointer, REPLAYED, PROBE_BYTES))
        driver.launch_graph(graph, stream)
        driver.synchronise(stream)
        found = driver.read(pointer, PROBE_BYTES)
    except driver.DriverError as error:
        return f"fails: {error}"
    return "works" if set(found) == {REPLAYED} else "fails: it wrote something else"


if __name__ == "__main__":
    sys.exit(main())
