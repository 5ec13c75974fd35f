"""Operators are told apart by their reference graphs, kernels by what binds them."""

from typing import Any

import pytest

from service.knowledge.traits import bottleneck, in_words, traits
from service.operators.catalogue import load_catalogue
from tests.service import records
from workers.protocol import Shape, ShapeRole
from workers.targets import TARGETS

H200 = TARGETS["sm_90"]
FLOOR_US = 100.0
"""Time that the bytes of these readings take at the target's peak bandwidth."""


def graph(*operations: str) -> tuple[dict[str, Any], ...]:
    return ({"nodes": [{"op": f"aten.{name}.default"} for name in operations]},)


def traits_of(name: str, *operations: str, **dims: int) -> tuple[str, ...]:
    operator = load_catalogue()[name]
    shape = Shape(dims=dims or operator.shapes[0].dims, role=ShapeRole.BENCHMARK, weight=1.0)
    search = records.search(graphs=graph(*operations), shapes=(shape.model_dump(mode="json"),))
    return traits(operator, search)


@pytest.mark.parametrize(
    "name, operations, kinds",
    [
        ("rmsnorm", ("_to_copy", "pow", "mean", "rsqrt", "mul"), ["reduction"]),
        ("cross_entropy", ("amax", "sub", "gather", "exp", "sum", "mean"), ["reduction", "gather"]),
        ("gelu", ("pow", "mul", "tanh"), ["elementwise"]),
        ("matmul", ("mm",), ["matmul"]),
        ("attention", ("bmm", "mul", "_softmax", "bmm"), ["attention", "reduction"]),
        ("rope", ("split", "neg", "cat", "mul"), ["elementwise"]),
    ],
)
def test_the_kind_comes_from_the_reference_graph(name: str, operations: tuple[str, ...], kinds: list[str]) -> None:
    found = traits_of(name, *operations)
    assert [trait for trait in found if ":" not in trait] == kinds
    assert "dtype:bfloat16" in found


def test_a_product_after_a_softmax_alone_is_no_attention() -> None:
    assert traits_of("matmul", "_softmax", "mm")[:2] == ("matmul", "reduction")


@pytest.mark.parametrize("row, length", [(1024, "short"), (1025, "medium"), (8192, "medium"), (8193, "long")])
def test_rows_have_a_length_in_words(row: int, length: str) -> None:
    assert f"rows:{length}" in traits_of("rmsnorm", "mean", M=4, N=row)


def test_without_a_graph_an_operator_counts_as_elementwise() -> None:
    assert traits(records.OPERATOR, records.search()) == ("elementwise", "rows:short", "dtype:float32")


@pytest.mark.parametrize(
    "time_us, changes, bound",
    [
        (1.9 * FLOOR_US, {}, "memory"),
        (2.1 * FLOOR_US, {}, "compute"),
        (2.1 * FLOOR_US, {"programs_per_sm": 0.5}, "latency"),
        (2.1 * FLOOR_US, {"programs_per_sm": 0.5, "tensor_core": "wgmma"}, "compute"),
        (6.0, {"launches": 2, "bytes_required": None}, "latency"),
    ],
)
def test_what_binds_a_kernel_is_what_explains_half_its_time(
    time_us: float, changes: dict[str, Any], bound: str
) -> None:
    required = int(H200.dram_bytes_per_s * FLOOR_US / 1e6)
    readings = records.readings().model_copy(update={"bytes_required": required, **changes})
    assert bottleneck(readings, H200, time_us) == bound


def test_a_kind_reads_like_a_sentence() -> None:
    assert in_words(("reduction", "gather", "rows:long", "dtype:bfloat16")) == (
        "a reduction and gather over long rows in bfloat16"
    )
    assert in_words(("elementwise",)) == "an elementwise"
