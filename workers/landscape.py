"""A recorded landscape: what thousands of kernels of one operator did on one device, in a file of JSON lines.

Four kinds of lines, in any order after the first session: a *session* says what was recorded and how; a *template*
is a source whose numbers may be others; a *source* is one text and the bundles that it led to; a *bundle* has
readings, verdict and times. Sources with equal plans share a bundle, which was measured once. Lines are only ever
added, so that a recording that was cut short is whole, and goes on where it ended.

A file may end in `.gz`. Nothing in it was measured by whoever reads it: figures out of it are `recorded`.
"""

import ast
import gzip
import hashlib
import json
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from workers.errors import ToolMissing
from workers.protocol import Device, Operator, Outcome, Readings, Shape, Stage
from workers.protocol.base import Constant, WireModel

REASON_CHARS = 200
"""Characters of a reason that are kept: enough to tell failures apart, and thousands of them stay small."""


class RecordingSession(WireModel):
    """One stretch of recording: on what, with what, when. All lines up to the next session are its own."""

    kind: Literal["session"] = "session"
    operator: str
    contract: str
    """The `contract_digest` of the only operators that the recording is valid for."""
    device: Device
    shapes: tuple[Shape, ...]
    """All that was traced; the benchmark shapes among them were timed."""
    protocol_version: int
    versions: dict[str, str] = {}
    machine: dict[str, Any] = {}
    date: str = ""
    command: str = ""


class RecordedTemplate(WireModel):
    """A source whose parameters may take other values. `path` names the rules that led to it from a seed."""

    kind: Literal["template"] = "template"
    id: str
    path: str
    source: str


class RecordedTime(WireModel):
    """Times at one shape: the pacer's in microseconds, and the kernel's over the pacer's, which ran beside it.

    Devices that predict pace nothing: there `pacer_us` is 1, and the kernel's times are microseconds.
    """

    pacer_us: float
    low: float
    mid: float
    high: float
    pairs: int = 0


class RecordedBundle(WireModel):
    """The recorded result of a bundle. `readings` and `times` are by key of the benchmark shape."""

    kind: Literal["bundle"] = "bundle"
    identity: str
    readings: dict[str, Readings]
    outcome: Outcome
    reason: str = ""
    stage: Stage | None = None
    times: dict[str, RecordedTime] = {}
    seconds: float = 0.0
    """That judging it took; in what was recorded until 2026-11-22 those between its answer and the one before."""


class RecordedVariant(WireModel):
    """One variant of a source: its bundle, or the outcome that stopped it."""

    index: int
    configuration: dict[str, Constant] = {}
    bundle: str | None = None
    outcome: Outcome = Outcome.CORRECT
    reason: str = ""


class RecordedSource(WireModel):
    """One text, by its digest: a template with these values of its parameters, and what tracing made of it."""

    kind: Literal["source"] = "source"
    digest: str
    template: str
    parameters: dict[str, int] = {}
    outcome: Outcome
    reason: str = ""
    stage: Stage | None = None
    line: int | None = None
    variants: tuple[RecordedVariant, ...] = ()
    seconds: float = 0.0
    """That tracing took."""


Line = RecordingSession | RecordedTemplate | RecordedBundle | RecordedSource
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")], config=WireModel.model_config)


class Landscape:
    """The recording of one operator on one device.

    Attributes:
        sessions: Stretches of recording, the first one first.
        templates: By id.
        sources: By digest of the text.
        bundles: By identity.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.sessions: list[RecordingSession] = []
        self.templates: dict[str, RecordedTemplate] = {}
        self.sources: dict[str, RecordedSource] = {}
        self.bundles: dict[str, RecordedBundle] = {}

    def add(self, line: Line) -> None:
        """Take in a line; a later word on the same thing replaces an earlier one."""
        match line:
            case RecordingSession():
                self.sessions.append(line)
            case RecordedTemplate():
                self.templates[line.id] = line
            case RecordedSource():
                self.sources[line.digest] = line
            case RecordedBundle():
                self.bundles[line.identity] = line

    @property
    def pacer_us(self) -> dict[str, float]:
        """The pacer's time at each benchmark shape, microseconds: the median over all that ran beside it.

        A kernel's time is this times its ratio, so that what slowed both for a while does not tell kernels apart.
        """
        found: dict[str, list[float]] = {}
        for bundle in self.bundles.values():
            for shape, timed in bundle.times.items():
                found.setdefault(shape, []).append(timed.pacer_us)
        return {shape: median(times) for shape, times in found.items()}


def contract_digest(operator: Operator) -> str:
    """Return a digest that operators share if their kernels are interchangeable; seeds and shapes do not count."""
    body = operator.model_dump(mode="json", exclude={"seeds", "shapes", "ranges"})
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def text_digest(source: str) -> str:
    """SHA-256 of a source without comments and formatting.

    Raises:
        SyntaxError: If Python cannot read it.
    """
    try:
        text = ast.unparse(ast.parse(source))
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"Python's parser gave up: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> Landscape:
    """Read a file. A last line that was cut short is left out; the recording was killed while it wrote it.

    Raises:
        ToolMissing: If another line is none of a landscape, or the file does not begin with a session.
    """
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode()
    lines = text.splitlines(keepends=True)
    found = Landscape()
    for number, line in enumerate(lines, 1):
        try:
            found.add(_LINE.validate_json(line))
        except ValidationError as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise ToolMissing(f"{path.name}, line {number}, is no line of a landscape: {error}") from error
    if not found.sessions:
        raise ToolMissing(f"{path.name} does not say what was recorded: its first line is no session")
    return found


def write_line(line: Line) -> str:
    """A line as files hold it, with its end."""
    return json.dumps(line.model_dump(mode="json", exclude_defaults=True) | {"kind": line.kind}) + "\n"


def pack(path: Path) -> Path:
    """Compress a file beside itself, to the same bytes whenever that is done; where it is."""
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return packed
