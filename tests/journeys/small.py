"""An operator for journeys that are not about the operator: one small shape, and none drawn from ranges.

A kernel of the catalogue is compiled for nine shapes or more, which takes most of a journey's time and shows nothing
that other tests of the catalogue do not show.
"""

import tomllib
from pathlib import Path
from typing import Any

from service.operators.catalogue import load_catalogue

SPEC = """
name = "softmax"
entry = "softmax"
reference = "reference.py"
seeds = [{seeds}]

[[inputs]]
name = "x"
shape = ["M", "N"]
dtype = "bfloat16"

[[outputs]]
name = "y"
dtype = "bfloat16"

[[shapes]]
M = 8
N = 64
"""
"""Without ranges there are no held-out shapes, which differ from search to search."""


def small_operator(folder: Path, *seeds: str) -> Path:
    """Write it into a folder, with these seeds or the catalogue's first; returns its spec's path."""
    operator = load_catalogue()["softmax"]
    sources = {f"seed{number}.py": source for number, source in enumerate(seeds or operator.seeds[:1])}
    for name, text in {"reference.py": operator.reference, **sources}.items():
        (folder / name).write_text(text)
    path = folder / "operator.toml"
    path.write_text(SPEC.format(seeds=", ".join(f'"{name}"' for name in sources)))
    return path


def small_request() -> dict[str, Any]:
    """The same as a document, with its sources inline."""
    operator = load_catalogue()["softmax"]
    sources = {"reference": operator.reference, "seeds": list(operator.seeds)}
    return {**tomllib.loads(SPEC.format(seeds="")), **sources}
