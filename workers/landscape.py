"""A recorded landscape: results of thousands of kernels of one operator on one device, in a file of JSON lines.

After the first session, four kinds of lines may come in any order. A *session* says what was recorded and how. A
*template* is a source whose parameters may take other values. A *source* is one text with its bundles. A *bundle* has
readings, verdict and times. Sources with equal plans share a bundle, which was measured once. Lines are only appended,
so that an interrupted recording is valid and can be continued.

A file may end in `.gz`. Figures from it have the provenance `recorded`.
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
"""Maximum length of a reason: enough to tell failures apart, and thousands of them stay small."""


class RecordingSession(WireModel):
    """One recording session: device, versions and date. All lines up to the next session belong to it."""

    kind: Literal["session"] = "session"
    operator: str
    contract: str
    """The `contract_digest` of the only operators that the recording is valid for."""
    device: Device
    shapes: tuple[Shape, ...]
    """Shapes that were traced; the benchmark shapes among them were timed."""
    protocol_version: int
    versions: dict[str, str] = {}
    machine: dict[str, Any] = {}
    date: str = ""
    command: str = ""


class RecordedTemplate(WireModel):
    """A source whose parameters may take other values. `path` names the rules by which it follows from a seed."""

    kind: Literal["template"] = "template"
    id: str
    path: str
    source: str


class RecordedTime(WireModel):
    """Times at one shape: the pacer's in microseconds, and the kernel's relative to the pacer's, in paired timing.

    Devices that predict times have no pacer: `pacer_us` is 1, and the kernel's times are microseconds.
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
    """Duration of judging it. In recordings until 2026-11-22: the seconds from the previous answer to this one."""


class RecordedVariant(WireModel):
    """One variant of a source: its bundle, or the outcome that stopped it."""

    index: int
    configuration: dict[str, Constant] = {}
    bundle: str | None = None
    outcome: Outcome = Outcome.CORRECT
    reason: str = ""


class RecordedSource(WireModel):
    """One text, by its digest: a template with these values of its parameters, and the result of tracing it."""

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
    """Duration of tracing."""


Line = RecordingSession | RecordedTemplate | RecordedBundle | RecordedSource
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")], config=WireModel.model_config)


class Landscape:
    """The recording of one operator on one device.

    Attributes:
        sessions: Recording sessions in their order.
        templates: Templates by id.
        sources: Sources by digest of the text.
        bundles: Bundles by identity.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.sessions: list[RecordingSession] = []
        self.templates: dict[str, RecordedTemplate] = {}
        self.sources: dict[str, RecordedSource] = {}
        self.bundles: dict[str, RecordedBundle] = {}

    def add(self, line: Line) -> None:
        """Add a line. It replaces an earlier one about the same template, source or bundle."""
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
        """The pacer's time at each benchmark shape, microseconds: the median over all paired timings.

        A kernel's time is this times its ratio, so that disturbances of both do not affect comparisons.
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
    """Return the SHA-256 of a source without comments and formatting.

    Raises:
        SyntaxError: If Python cannot read it.
    """
    try:
        text = ast.unparse(ast.parse(source))
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"Python's parser gave up: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> Landscape:
    """Read a file, without an incomplete last line, which a killed recording leaves behind.

    Raises:
        ToolMissing: If another line is invalid, or there is no session.
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
            raise ToolMissing(f"{path.name}, line {number}, is not a line of a landscape: {error}") from error
    if not found.sessions:
        raise ToolMissing(f"{path.name} does not say what was recorded: it has no session")
    return found


def write_line(line: Line) -> str:
    """Return a line as text for a file, with its newline."""
    return json.dumps(line.model_dump(mode="json", exclude_defaults=True) | {"kind": line.kind}) + "\n"


def pack(path: Path) -> Path:
    """Compress a file into the same folder, reproducibly. Returns the new file's path."""
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return packed
