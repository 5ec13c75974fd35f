"""A small honest bundle, as the document that a trace would send, and ways to spoil it."""

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

from workers.protocol import Bundle, Kernel

KERNEL = Kernel(
    language="ptx", assembly=".version 8.7", target="sm_90", num_warps=4, shared_bytes=16, global_scratch_bytes=128
)
OTHER = KERNEL.model_copy(update={"assembly": ".version 8.8"})
CUBINS = {kernel.digest: hashlib.sha256(kernel.assembly.encode()).hexdigest() for kernel in (KERNEL, OTHER)}

VIEW = {"buffer": 1, "offset_bytes": 0, "shape": [8, 16], "strides": [16, 1], "dtype": "float32"}
POINTER = {"kind": "pointer", "buffer": 0, "offset_bytes": 0, "extent_bytes": 512, "dtype": "float32"}
LAUNCH = {
    "op": "launch",
    "kernel": KERNEL.digest,
    "grid": [8, 1, 1],
    "arguments": [POINTER, {**POINTER, "buffer": 1}, {"kind": "number", "type": "i32", "value": 16}],
    "function": "double",
    "parameters": ["x", "y", "n"],
    "constants": {"width": 16},
    "line": 7,
}
PLAN = {
    "shape": {"dims": {"M": 8, "N": 16}},
    "buffers": [{"id": 0, "bytes": 512, "input": 0}, {"id": 1, "bytes": 512}],
    "steps": [{"op": "allocate", "buffer": 1}, {"op": "fill", "target": VIEW, "value": 0.0}, LAUNCH],
    "outputs": [VIEW],
}
BUNDLE = {
    "target": "sm_90",
    "operator": "0" * 64,
    "configuration": {"width": 16},
    "kernels": {kernel.digest: kernel.model_dump() for kernel in (KERNEL, OTHER)},
    "plans": [PLAN],
    "cubins": CUBINS,
}


def changed(document: Any, path: Sequence[str | int], value: object) -> Any:
    """A copy of a document with one place set to a value."""
    spoiled = copy.deepcopy(document)
    place = spoiled
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return spoiled


def bundle(*path: str | int, value: object = None) -> Bundle:
    """The honest bundle, or one with a place changed."""
    return Bundle.model_validate(changed(BUNDLE, path, value) if path else BUNDLE)
