"""Suites of searches on a card: the anchor suite, and the rest of the catalogue.

The anchor suite was fixed before any of it was searched for. Rows that are heavy on the matrix units come last, and
neighbours are of a kind, so that shares that take every so many rows are alike.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from service.operators.catalogue import load_catalogue, load_operator
from workers.protocol import DTYPE_BYTES, Operator, View


@dataclass(frozen=True)
class SuiteEntry:
    """One row: an operator at one shape.

    Attributes:
        operator: Its name in the catalogue.
        dims: Sizes by dimension.
        flops: Operations of the matrix units that nobody can do without; 0 where there are none, or where they depend
            on values (a head may skip the tokens that are masked).
        home: The folder of its spec, which is not in the catalogue then.
        baselines: Baselines to compare with, beside eager PyTorch; None for those of its spec.
        further: Sources of seeds behind those of its spec.
    """

    operator: str
    dims: Mapping[str, int]
    flops: float = 0.0
    home: Path | None = None
    baselines: tuple[str, ...] | None = None
    further: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        """As tables have it: `M=4096,N=4096`."""
        return ",".join(f"{name}={size}" for name, size in self.dims.items())

    @property
    def key(self) -> str:
        """Key of a row."""
        return f"{self.operator} {self.shape}"

    def contract(self) -> dict[str, Any]:
        """The operator's spec, as JSON, with this shape alone."""
        operator = load_catalogue()[self.operator] if self.home is None else load_operator(self.home)
        spec = operator.model_dump(mode="json")
        asked = {} if self.baselines is None else {"baselines": list(self.baselines)}
        seeds = [*spec["seeds"], *self.further]
        return {**spec, **asked, "seeds": seeds, "shapes": [{"dims": dict(self.dims), "weight": 1.0}]}


def _rows(operator: str, *shapes: Mapping[str, int]) -> list[SuiteEntry]:
    return [SuiteEntry(operator, shape) for shape in shapes]


def _matmul(size: int) -> SuiteEntry:
    return SuiteEntry("matmul", {"M": size, "K": size, "N": size}, 2.0 * size**3)


_WIDE = ({"M": 8192, "N": 8192}, {"M": 4096, "N": 4096}, {"M": 1024, "N": 32768})
ANCHOR = (
    *_rows("rmsnorm", {"M": 8192, "N": 8192}, {"M": 4096, "N": 4096}, {"M": 2048, "N": 4096}),
    *_rows("rmsnorm", {"M": 65536, "N": 1024}, {"M": 512, "N": 65536}),
    *_rows("softmax", *_WIDE),
    *_rows("layernorm", *_WIDE),
    *_rows("cross_entropy", {"M": 4096, "V": 32000}, {"M": 8192, "V": 128256}),
    *_rows("swiglu", {"M": 8192, "N": 14336}),
    *_rows("gelu", {"M": 8192, "N": 14336}),
    *_rows("rope", {"B": 4, "H": 32, "T": 4096, "D": 128}),
    *_rows("quantize_fp8", {"M": 4096, "N": 8192}),
    SuiteEntry("w4a16_matmul", {"M": 16, "G": 32, "N": 4096}, 2.0 * 16 * 4096 * 4096),
    _matmul(4096),
    _matmul(8192),
    SuiteEntry("gate_up_swiglu", {"M": 4096, "K": 4096, "N": 14336}, 4.0 * 4096 * 4096 * 14336),
    *_rows("lm_head_sparse", {"B": 32, "T": 512, "K": 768, "V": 30522}),
    # Of a row's 4096 scores half are needed, in two products of 128 each.
    SuiteEntry("attention", {"B": 4, "H": 32, "T": 4096, "D": 128}, 4.0 * 4 * 32 * 128 * (4096 * 4097 / 2)),
)
"""23 rows."""


def rest() -> tuple[SuiteEntry, ...]:
    """Operators of the catalogue that the anchor suite leaves out, each at its first benchmark shape."""
    anchored = {entry.operator for entry in ANCHOR}
    left = (operator for name, operator in load_catalogue().items() if name not in anchored)
    return tuple(SuiteEntry(operator.name, operator.shapes[0].dims) for operator in left)


def suite(name: str) -> tuple[SuiteEntry, ...]:
    """A suite's rows by its name.

    Raises:
        KeyError: If there is none of this name.
    """
    return {"anchor": lambda: ANCHOR, "catalogue": rest}[name]()


SUITES = ("anchor", "catalogue")


@dataclass(frozen=True)
class CardRates:
    """Measured rates of a run's card: bytes read or copied a second, and dense bfloat16 operations a second."""

    bytes_per_s: float
    flops_per_s: float


def moved_bytes(operator: Operator, dims: dict[str, int], results: Iterable[View]) -> int:
    """Bytes of reading all inputs and writing all results once."""
    written = sum(prod(view.shape) * DTYPE_BYTES[view.dtype] for view in results)
    return operator.input_bytes(dims) + written


def floor_us(moved: int, flops: float, rates: CardRates) -> float:
    """The least time of a row, microseconds: that of its bytes or that of its operations, whichever is longer."""
    return max(moved / rates.bytes_per_s, flops / rates.flops_per_s) * 1e6
