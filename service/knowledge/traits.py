"""What kind an operator is, and what a kernel is bound by: the terms in which one search's lessons help another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archive.records import SearchRecord
from workers.protocol import Operator, Readings, Shape, ShapeRole
from workers.targets import Target

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "matmul", "linear", "einsum"}
REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "any", "all", "var", "var_mean", "std"),
    *("_softmax", "_log_softmax", "logsumexp", "cumsum", "cumprod", "linalg_vector_norm", "norm"),
    *("native_layer_norm", "native_group_norm", "nll_loss_forward"),
}
GATHERS = {"gather", "index", "index_select", "embedding", "take", "scatter", "scatter_add", "index_put", "index_add"}
ATTENTIONS = {"_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"}
"""ATen operations, without overloads, that make an operator of one kind; whatever has none of them is elementwise."""

SHORT_ROW = 1024
"""Elements of a row that one program holds with a few registers a thread; `rows:short` up to here."""
LONG_ROW = 8192
"""Elements of a row beyond which one block of it no longer fits into a program's registers; `rows:long` from there."""

LAUNCH_US = 2.5
"""Microseconds that one kernel of a graph costs by itself, by the fit of the prediction."""
BOUND_SHARE = 0.5
"""Share of a kernel's time that one cause has to explain before the kernel counts as bound by it."""
MATRIX_UNITS = ("mma", "wgmma")


def traits(operator: Operator, search: SearchRecord) -> tuple[str, ...]:
    """What an operator is like: its kind first, then further kinds, the length of its rows, its dtype.

    Kinds are `attention`, `matmul`, `reduction`, `gather` and `elementwise`, read from the reference graph; a search
    whose reference is not exported yet counts as elementwise.
    """
    names = [node["op"].split(".")[1] for graph in search.graphs[:1] for node in graph["nodes"]]
    kinds = list(_kinds(names)) or ["elementwise"]
    shapes = (Shape.model_validate(shape) for shape in search.shapes)
    dims = next(shape.dims for shape in shapes if shape.role is ShapeRole.BENCHMARK)
    widest = max(operator.inputs, key=lambda item: len(item.shape))
    floating = (item.dtype for item in operator.inputs if "float" in item.dtype)
    row = (operator.input_shape(widest, dims) or (1,))[-1]
    return (*kinds, f"rows:{_length(row)}", f"dtype:{next(floating, operator.inputs[0].dtype)}")


def bottleneck(readings: Readings, target: Target, time_us: float) -> str:
    """What a kernel is bound by at one shape: `memory`, `compute` or `latency`.

    Memory if the bytes it has to move take half of its time at the peak bandwidth. Latency if its launches alone take
    half of it, or if it has fewer programs than the device has processors. Compute otherwise: the matrix units or the
    instructions are what is left. A kernel on matrix units is never bound by latency for having few programs.

    Args:
        readings: Of the shape's plan.
        target: What it was compiled for.
        time_us: Its time there, microseconds.
    """
    memory_us = (readings.bytes_required or 0) / target.dram_bytes_per_s * 1e6
    if memory_us >= BOUND_SHARE * time_us:
        return "memory"
    idle = readings.programs_per_sm < 1 and readings.tensor_core not in MATRIX_UNITS
    if idle or readings.launches * LAUNCH_US >= BOUND_SHARE * time_us:
        return "latency"
    return "compute"


def in_words(traits: Sequence[str]) -> str:
    """An operator's kind for a sentence, such as `a reduction over medium rows in bfloat16`."""
    said: Mapping[str, str] = dict(trait.split(":", 1) for trait in traits if ":" in trait)
    kinds = " and ".join(trait for trait in traits if ":" not in trait)
    rows = f" over {said['rows']} rows" if "rows" in said else ""
    dtype = f" in {said['dtype']}" if "dtype" in said else ""
    return f"{'an' if kinds[:1] in 'aeiou' else 'a'} {kinds}{rows}{dtype}"


def _kinds(names: Sequence[str]) -> Iterator[str]:
    products = [index for index, name in enumerate(names) if name in PRODUCTS]
    between: Sequence[Any] = names[products[0] : products[-1]] if products else ()
    if ATTENTIONS & set(names) or {"_softmax", "exp"} & set(between):
        yield "attention"
    elif products:
        yield "matmul"
    if REDUCTIONS & set(names):
        yield "reduction"
    if GATHERS & set(names):
        yield "gather"


def _length(row: int) -> str:
    return "short" if row <= SHORT_ROW else "medium" if row <= LONG_ROW else "long"
