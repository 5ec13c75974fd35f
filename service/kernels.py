"""An elite as a file to run, read and ship: the kernel, where it came from, and a check of its own."""

import json
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from archive.records import Candidate, Elite, Search, Variant
from archive.store import Store
from workers.protocol import Device, Operator, Shape, ShapeRole

_TEMPLATES = Environment(loader=PackageLoader("service"), undefined=StrictUndefined, autoescape=False)  # writes Python


async def write_kernel(store: Store, search: Search, elite: Elite, folder: Path) -> Path:
    """Write an elite's candidate as `<folder>/<operator>_<candidate>.py`; returns the path."""
    candidate = await store.candidates.get(elite.candidate)
    variants = await store.candidates.variants(elite.candidate)
    operator = Operator.model_validate_json((await store.operators.get(search.operator)).document)
    variant = next(item for item in variants if item.index == elite.variant)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{operator.name}_{candidate.id}.py"
    path.write_text(kernel_file(search, operator, candidate, variant, elite))
    return path.resolve()


def kernel_file(search: Search, operator: Operator, candidate: Candidate, variant: Variant, elite: Elite) -> str:
    """The text of a runnable file: provenance, the candidate as it is, and a check against the reference."""
    predicted = Device.parse(elite.device).kind == "model"
    return _TEMPLATES.get_template("kernel.py.jinja").render(
        name=operator.name,
        entry=operator.entry,
        search=search.id,
        device=elite.device,
        relative_to="seed kernel" if predicted else "best baseline",
        low=f"{elite.low:.3f}x",
        high=f"{elite.high:.3f}x",
        provenance="predicted, not measured" if predicted else "measured",
        candidate=candidate.id,
        variant=elite.variant,
        configuration=f" ({json.dumps(dict(variant.configuration))})" if variant.configuration else "",
        bundle=elite.bundle[:16],
        source=candidate.source.rstrip("\n") + "\n",
        reference=repr(operator.reference),
        inputs=repr(_inputs(search, operator)),
        scalars=repr([scalar.value for scalar in operator.scalars]),
    )


def _inputs(search: Search, operator: Operator) -> list[tuple[tuple[int, ...], str, float | None, float | None]]:
    """Shape, dtype and bounds of each input at the largest boundary shape: small enough for the interpreter."""
    shapes = [Shape.model_validate(shape) for shape in search.shapes]
    small = [shape for shape in shapes if shape.role is ShapeRole.BOUNDARY] or shapes
    dims = max(small, key=lambda shape: operator.input_bytes(shape.dims)).dims
    return [
        (
            operator.input_shape(item, dims),
            item.dtype,
            item.low,
            dims[item.high] if isinstance(item.high, str) else item.high,
        )
        for item in operator.inputs
    ]
