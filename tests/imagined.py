"""Recordings that nobody made: kernels of a real space with figures by a formula, for tests of those who read them."""

from itertools import islice
from pathlib import Path
from random import Random

from benchmarks.space import RenderedPoint, points, written
from tests.gpu.contracts import operators
from workers.landscape import (
    Landscape,
    RecordedBundle,
    RecordedSource,
    RecordedTemplate,
    RecordedTime,
    RecordedVariant,
    RecordingSession,
    contract_digest,
    write_line,
)
from workers.protocol import PROTOCOL_VERSION, Device, Outcome, Readings, Shape, Stage

FAILING = 7
"""Every such source does not compile."""


def imagine(
    folder: Path, name: str = "rmsnorm", count: int = 60, device: str = "h200", slowest: float = 1.8
) -> Landscape:
    """Write a recording of the first points of an operator's space to where `recorded:<device>` looks for it.

    Args:
        folder: What benches are told by `--data`.
        name: Of the operator.
        count: Sources.
        device: What it claims to be of.
        slowest: Most time that any source but the first takes, as a multiple of the first's.
    """
    operator = operators()[name]
    shapes = tuple(Shape(dims=item.dims, weight=item.weight) for item in operator.shapes)
    session = RecordingSession(
        operator=name,
        contract=contract_digest(operator),
        device=Device.parse(device),
        shapes=shapes,
        protocol_version=PROTOCOL_VERSION,
        versions={"triton": "0.0"},
    )
    found = Landscape()
    lines: list[RecordingSession | RecordedTemplate | RecordedSource | RecordedBundle] = [session]
    for index, point in enumerate(islice(points(operator, "sm_90"), count)):
        text = written(point, "sm_90")
        lines += [point.template, *_told(text, index, shapes, slowest)]
    for line in lines:
        found.add(line)
    path = folder / "landscapes" / device.rpartition(":")[2] / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(write_line, lines)))
    return found


def _told(
    text: RenderedPoint, index: int, shapes: tuple[Shape, ...], slowest: float
) -> list[RecordedSource | RecordedBundle]:
    template, parameters = text.point.template.id, dict(text.parameters)
    if index % FAILING == FAILING - 1:
        failed = {"outcome": Outcome.COMPILE_ERROR, "reason": "imagined", "stage": Stage.TRACE}
        return [RecordedSource(digest=text.digest, template=template, parameters=parameters, **failed)]
    rng = Random(text.digest)
    readings = Readings(
        launches=1,
        programs=4096,
        programs_per_sm=31.0,
        num_warps=parameters.get("num_warps", 4),
        registers=rng.choice((16, 32, 64, 128)),
        shared_bytes=rng.choice((0, 1024, 65536)),
        occupancy=rng.choice((0.25, 0.5, 1.0)),
        load_width_bytes=rng.choice((4, 8, 16)),
        memory_path="plain",
        tensor_core="none",
        persistent=rng.random() < 0.3,
    )
    ratio = 1.0 if index == 0 else round(rng.uniform(0.6, slowest), 4)
    times = {
        shape.key: RecordedTime(pacer_us=20.0, low=ratio * 0.99, mid=ratio, high=ratio * 1.01, pairs=4)
        for shape in shapes
    }
    variant = RecordedVariant(index=0, bundle=text.digest)
    return [
        RecordedSource(
            digest=text.digest, template=template, parameters=parameters, outcome=Outcome.CORRECT, variants=(variant,)
        ),
        RecordedBundle(
            identity=text.digest,
            readings={shape.key: readings for shape in shapes},
            outcome=Outcome.CORRECT,
            times=times,
        ),
    ]
