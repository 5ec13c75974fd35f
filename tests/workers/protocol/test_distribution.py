"""Ordered inputs exist at every size in the ranges, or their operator is refused with the reason."""

import pytest
from pydantic import ValidationError

from workers.protocol import Distribution, Operator
from workers.protocol.distribution import impossible, segments_in


def operator(item: dict[str, object], **ranges: tuple[int, int]) -> Operator:
    inputs = [{"name": "x", "shape": ["T", "B"], "dtype": "float32"}, {"name": "i", "dtype": "int32", **item}]
    return Operator.model_validate(
        {
            "name": "f",
            "entry": "f",
            "reference": "def f(x, i): ...",
            "inputs": inputs,
            "outputs": [{"name": "y", "dtype": "float32"}],
            "shapes": [{"dims": {"T": 64, "B": 8}}],
            "ranges": ranges,
        }
    )


@pytest.mark.parametrize(
    ("item", "ranges"),
    [
        ({"shape": ["B+1"], "distribution": "offsets", "high": "T"}, {"T": (0, 64), "B": (1, 64)}),
        ({"shape": ["B"], "distribution": "counts", "high": "T"}, {"B": (1, 8)}),
        ({"shape": ["T"], "distribution": "unique", "high": "T+B"}, {"T": (0, 64), "B": (0, 8)}),
        ({"shape": [2, "T"], "distribution": "unique", "high": "B*T"}, {"T": (1, 64), "B": (1, 8)}),
        ({"shape": ["B"], "distribution": "unique", "high": "T"}, {"T": (16, 64), "B": (1, 16)}),
        ({"shape": ["B"], "distribution": "sorted", "low": 2, "high": "T"}, {"T": (3, 64)}),
        ({"shape": ["T"], "high": "T"}, {"T": (0, 64), "B": (1, 8)}),
    ],
)
def test_inputs_that_always_exist_are_taken(item: dict[str, object], ranges: dict[str, tuple[int, int]]) -> None:
    assert operator({"shape": ["B"], **item}, **ranges).inputs[1].high == item["high"]


@pytest.mark.parametrize(
    ("item", "ranges", "said"),
    [
        ({"shape": ["B"], "distribution": "offsets", "high": "T"}, {"B": (1, 8)}, "there is no segment at B=1"),
        ({"shape": ["B"], "distribution": "ends", "high": "T"}, {"B": (0, 8)}, "there is no segment at B=0"),
        ({"shape": ["T"], "distribution": "unique", "high": "B"}, {}, "64 different indices below B at T=64, B=8"),
        ({"shape": ["B"], "distribution": "unique", "high": "T"}, {"B": (1, 32), "T": (16, 64)}, "B=32, T=16 do not"),
        ({"shape": ["B"], "distribution": "unique", "low": 60, "high": "T"}, {}, "do not exist"),
        ({"shape": ["B"], "distribution": "sorted", "low": 2, "high": "T"}, {"T": (1, 64)}, "no index from 2"),
        ({"shape": ["B"], "distribution": "sorted", "high": 2.0**40}, {}, "more than 2147483647"),
        ({"shape": ["B"], "distribution": "sorted"}, {}, "needs 'high'"),
        ({"shape": ["B"], "distribution": "unique", "high": 9.5}, {}, "needs 'high': a whole number"),
        ({"shape": [], "distribution": "unique", "high": 9}, {}, "needs an axis"),
        ({"shape": ["B"], "distribution": "offsets", "low": 1, "high": "T"}, {}, "'low' of segments is 0"),
        ({"shape": ["B"], "dtype": "int16", "distribution": "offsets", "high": "T"}, {}, "needs dtype int32 or int64"),
        ({"shape": ["B"], "high": "T"}, {"T": (0, 64)}, "no index below T where that is 0"),
    ],
)
def test_inputs_that_do_not_exist_somewhere_are_refused(
    item: dict[str, object], ranges: dict[str, tuple[int, int]], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        operator(item, **ranges)


def test_offsets_have_one_element_more_than_segments() -> None:
    assert [segments_in(each, 5) for each in (Distribution.OFFSETS, Distribution.ENDS, Distribution.COUNTS)] == [
        4,
        5,
        5,
    ]
    assert impossible(Distribution.OFFSETS, 2, 0, 0, {}) is None
