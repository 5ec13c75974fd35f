"""Our convolutions: every kind computes torch's result."""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from workers.inductor_seeds.convolution import (
    EXACT_OPTIONS,
    PRODUCT_OPTIONS,
    Convolution,
    ConvolutionAxis,
    ConvolutionSizes,
    read_convolution,
)
from workers.protocol import Outcome
from workers.tracer.refusal import TraceRefused

CASES = {
    "along a line": {"axes": [[3, 1, 1, 1]], "extents": [19]},
    "with steps and gaps": {"axes": [[3, 3, 0, 4]], "extents": [23]},
    "of an image": {"axes": [[3, 1, 1, 1], [3, 1, 1, 1]], "extents": [7, 9]},
    "uneven": {"axes": [[3, 2, 1, 1], [5, 1, 2, 2]], "extents": [8, 11]},
    "of single places": {"axes": [[1, 2, 0, 1], [1, 1, 0, 1]], "extents": [5, 6]},
    "in groups": {"axes": [[3, 1, 1, 1], [2, 1, 0, 1]], "extents": [6, 6], "groups": 3},
    "of a volume": {"axes": [[3, 1, 1, 1], [3, 2, 0, 1], [2, 1, 0, 1]], "extents": [4, 7, 5]},
    "spread": {"axes": [[3, 2, 1, 1], [3, 2, 1, 1]], "extents": [5, 4], "transposed": True},
    "spread with more behind": {
        "axes": [[3, 2, 1, 1], [5, 3, 2, 1]],
        "extents": [5, 4],
        "transposed": True,
        "more": [1, 2],
    },
    "spread without steps": {"axes": [[4, 1, 1, 1]], "extents": [9], "transposed": True},
    "spread with steps and gaps": {"axes": [[3, 2, 1, 2], [3, 1, 0, 2]], "extents": [5, 6], "transposed": True},
    "spread with gaps that steps divide": {"axes": [[5, 4, 1, 6], [3, 2, 3, 3]], "extents": [5, 6], "transposed": True},
    "spread from behind the input": {"axes": [[3, 2, 5, 1], [2, 1, 0, 4]], "extents": [9, 4], "transposed": True},
    "spread wider than its taps reach": {"axes": [[2, 3, 0, 1]], "extents": [6], "transposed": True},
    "spread in groups": {"axes": [[3, 2, 1, 1]] * 3, "extents": [3, 2, 4], "transposed": True, "groups": 2},
    "by channel": {"axes": [[3, 1, 1, 1], [3, 2, 0, 1]], "extents": [6, 9], "groups": 5, "filters": 1, "channels": 1},
    "to one filter": {"axes": [[3, 1, 1, 1], [2, 1, 0, 1]], "extents": [6, 5], "filters": 1},
    "spread by channel": {
        "axes": [[3, 2, 1, 1], [4, 3, 1, 1]],
        "extents": [4, 5],
        "groups": 3,
        "filters": 1,
        "channels": 2,
        "transposed": True,
    },
    "spread by channel with gaps": {
        "axes": [[3, 2, 1, 3]],
        "extents": [7],
        "groups": 3,
        "filters": 1,
        "channels": 1,
        "transposed": True,
    },
    "with wide indices": {"axes": [[3, 1, 1, 1], [3, 1, 1, 1]], "extents": [7, 9], "wide": True},
    "by channel with wide indices": {"axes": [[3, 1, 1, 1]], "extents": [7], "groups": 2, "filters": 1, "wide": True},
}
CASES |= {
    f"{name} with a fixed number of channels": {**CASES[name], "fixed": True, "precision": None}
    for name in ("uneven", "of a volume", "in groups", "spread with steps and gaps", "spread in groups", "by channel")
}
PACKED = {
    f"packed {name}": {**case, "most": [64, 256]}
    for name, case in CASES.items()
    if case.get("filters") != 1 and not (case.get("transposed") and case.get("groups", 1) > 1)
}
PACKED |= {"packed of many channels": {**PACKED["packed uneven"], "channels": 41, "most": [41, 256]}}
PACKED |= {
    f"packed of few channels {name}": {**CASES[name], "channels": 3, "most": [27, 256]}
    for name in ("of an image", "in groups", "of a volume", "spread with more behind")
}
DEFAULTS = {"transposed": False, "groups": 1, "images": 2, "channels": 5, "filters": 19}


@pytest.fixture(scope="module")
def distances() -> dict[str, tuple[float, bool]]:
    """Distances of the cases from torch's results, and True for kernels that read copies."""
    script = Path(__file__).parent / "convolved.py"
    cases = json.dumps([{**DEFAULTS, **case} for case in (CASES | PACKED).values()])
    ended = subprocess.run([sys.executable, script], input=cases, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(CASES | PACKED, json.loads(ended.stdout), strict=True))


@pytest.mark.parametrize("name", CASES | PACKED)
def test_a_convolution_is_what_torch_says(distances: dict[str, tuple[float, bool]], name: str):
    distance, is_packed = distances[name]
    assert distance < 1e-4
    assert is_packed == (name in PACKED and not name.endswith(("single places", "its taps reach")))


SIZES = ConvolutionSizes(channels=5, filters=300)


def convolution(**changes) -> Convolution:
    usual = Convolution(
        (ConvolutionAxis(3),), transposed=False, groups=1, channels=None, filters=None, sizes=SIZES, precision=None
    )
    return replace(usual, **changes)


def test_what_a_kernel_is_not_written_for_is_not_in_it():
    text = ast.unparse(convolution(precision="ieee").kernel())
    assert not [word for word in ("height", "phase", "group", "transposed", "if ", "w >= 0") if word in text.lower()]
    assert "input_precision='ieee'" in text


def test_blocks_are_no_wider_than_what_there_is():
    def options(filters: int | None) -> dict[str, int]:
        return convolution(filters=filters).options

    assert [options(filters)["BLOCK_N"] for filters in (3, 20, 300)] == [16, 32, 128]
    assert options(None) == PRODUCT_OPTIONS | {"BLOCK_K": 16}
    assert [options(filters)["num_warps"] for filters in (64, 65)] == [4, 8]
    assert convolution(precision="ieee").options == EXACT_OPTIONS | {"BLOCK_K": 16}


@pytest.mark.parametrize(
    ("places", "filters", "tile"),
    [(2**20, 512, (128, 128, 8)), (64 * 128, 256, (128, 128, 8)), (1960, 512, (64, 64, 4)), (1960, 64, (64, 64, 4))],
)
def test_tiles_are_smaller_where_few_would_leave_processors_idle(places: int, filters: int, tile: tuple[int, ...]):
    sizes = ConvolutionSizes(channels=64, filters=filters, places=places)
    options = convolution(sizes=sizes, filters=filters).options
    assert tuple(options[name] for name in ("BLOCK_M", "BLOCK_N", "num_warps")) == tile


def test_inputs_are_copied_if_many_products_pay_for_it():
    wide = ConvolutionSizes(channels=64, filters=128)
    of = convolution(sizes=wide)
    assert of.is_packed and of.options["BLOCK_K"] == 32
    assert not convolution(sizes=replace(wide, channels=3)).is_packed
    assert not convolution(sizes=replace(wide, filters=64)).is_packed
    assert not replace(of, axes=(ConvolutionAxis(1),)).is_packed
    assert not replace(of, transposed=True, groups=2).is_packed


def test_few_taps_are_unrolled_if_their_number_is_fixed():
    assert "tl.static_range(0, 9, BLOCK_K)" in ast.unparse(convolution(channels=3).kernel())
    for other in (convolution(), convolution(channels=99), convolution(channels=3, precision="ieee")):
        assert "static_range" not in ast.unparse(other.kernel())


def test_factors_are_rounded_where_a_copy_has_not_done_it():
    def roundings(of: Convolution) -> int:
        return ast.unparse(of.kernel()).count("bitcast=True) + 4096")

    packed = convolution(sizes=ConvolutionSizes(channels=64, filters=128), rounded=True)
    assert [roundings(of) for of in (convolution(rounded=True), convolution(), packed)] == [2, 0, 0]
    copied, _ = packed.copies(["N", "64", "W"], ["128", "64", "3"])
    assert ast.unparse(copied.kernel(rounded=True)).count("bitcast=True) + 4096") == 1


def test_what_has_one_part_has_a_grid_of_two_axes():
    def grid(groups: int) -> str:
        of = convolution(axes=(ConvolutionAxis(3, 2),), groups=groups)
        return of.grid(["N", "6", "W"], ["F", "C", "3"], ["N", "F", "P"])

    def of_numbers() -> str:
        of = convolution(axes=(ConvolutionAxis(3, 2),), filters=48)
        return of.grid(["24", "6", "W"], ["48", "6", "3"], ["24", "48", "P"])

    assert grid(1) == "(triton.cdiv(N * P, 128), triton.cdiv(F, 128))"
    assert of_numbers() == "(triton.cdiv(24 * P, 128), triton.cdiv(48, 64))", (
        "whoever tunes a block needs to find it here"
    )
    assert grid(2) == "(triton.cdiv(N * P, 128), triton.cdiv((F) // 2, 128), 2)"


def read(call: str, weight: str, y: str) -> Convolution:
    node, *extents = (ast.parse(code, mode="eval").body for code in (call, weight, y))
    sides = (size.elts for size in extents)
    return read_convolution(node, *sides, [40, 24, 48], far=False, wide=True, precision=None)


def test_a_call_is_read():
    found = read("f(x, w, [2], [1], [3], True, [0], 4)", "(s0, 6, 5)", "(s1, 24, s2)")
    axes, sizes = (ConvolutionAxis(5, 2, 1, 3),), ConvolutionSizes(10, 24, far=False, wide=True)
    assert found == Convolution(axes, transposed=True, groups=4, channels=None, filters=6, sizes=sizes, precision=None)
    assert read("f(x, w, [1], [0], [1], True, [0], 4)", "(8, 6, 5)", "(s1, 24, s2)").channels == 2
    fixed = read("f(x, w, [1], [0], [1], False, [0], 4)", "(8, 3, 5)", "(s1, 8, s2)")
    assert (fixed.filters, fixed.channels, fixed.sizes.filters) == (2, 3, 12)
    assert read("f(x, w, [1], [0], [1], False, [0], 1)", "(s0, s1, 5)", "(s2, s0, s3)").filters is None


def test_filters_of_any_extent_are_refused():
    with pytest.raises(TraceRefused) as refused:
        read("f(x, w, [1], [0], [1], False, [0], 1)", "(8, 4, s0)", "(s1, 8, s2)")
    assert refused.value.outcome is Outcome.FORBIDDEN_OP
