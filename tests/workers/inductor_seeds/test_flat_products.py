"""Products of many small matrices with one are one product; others stay as they are."""

import pytest

from tests.workers.inductor_seeds.lowered import lowered
from tests.workers.tracer.jobs import operator
from workers.protocol import Operator


def of_code(code: str, width: int = 7) -> Operator:
    lines = ["import torch", "from torch.nn.functional import linear"]
    return operator(
        reference="\n".join([*lines, "", "", "def scale(x, w, b):", f"    return {code}", ""]),
        inputs=[
            {"name": "x", "shape": ["B", 24, "H", "W"], "dtype": "float32"},
            {"name": "w", "shape": [40, 24], "dtype": "float32"},
            {"name": "b", "shape": ["B", 24, 40], "dtype": "float32"},
        ],
        ranges={"B": [1, 4], "H": [1, 32], "W": [1, 256]},
        shapes=[{"dims": {"B": 2, "H": 14, "W": width}}],
    )


def grids_of(of: Operator) -> list[str]:
    """Rules for the grids of a draft's products."""
    return [grid for _, text, grid, _ in lowered(of)["kernels"] if "tl.dot" in text]


@pytest.mark.parametrize(
    ("code", "width", "are_many"),
    [
        ("linear(x.permute(0, 2, 3, 1), w)", 7, False),
        ("x.permute(0, 3, 2, 1) @ w.t() + 1", 7, False),
        ("x[:, :, 0].mT @ w.t()", 7, False),
        ("x[:, :, 0].mT @ w.t()", 200, True),
        ("x[:, :, 0].mT @ b", 7, True),
    ],
)
def test_matrices_of_few_rows_are_multiplied_with_the_same_one_together(code: str, width: int, are_many: bool) -> None:
    assert grids_of(of_code(code, width)) == ["BatchMatmulGrid3D" if are_many else "Grid2DWithYZOverflow"]
