"""Extents: numbers, dimensions, and sums of products of both."""

import pytest
from pydantic import TypeAdapter, ValidationError

from workers.protocol.extent import Extent, names_in, size_of, solved

EXTENT: TypeAdapter[str | int] = TypeAdapter(Extent)


@pytest.mark.parametrize(
    ("written", "size", "names"),
    [
        (7, 7, []),
        ("M", 3, ["M"]),
        ("64*K", 128, ["K"]),
        ("G * R", 20, ["G", "R"]),
        ("B+1", 6, ["B"]),
        ("2*G*R + B + 1", 46, ["G", "R", "B"]),
    ],
)
def test_a_size_follows_from_dimensions(written: str | int, size: int, names: list[str]) -> None:
    extent = EXTENT.validate_python(written)
    assert names_in(extent) == names
    assert size_of(extent, {"M": 3, "K": 2, "G": 4, "R": 5, "B": 5}) == size
    assert EXTENT.validate_json(EXTENT.dump_json(extent)) == extent


@pytest.mark.parametrize("text", ["", "64", "3*4", "M-1", "M/2", "M**2", "(M+1)*2", "M,N", "f(1)", "é", 0, -1])
def test_other_texts_are_refused(text: str | int) -> None:
    with pytest.raises(ValidationError):
        EXTENT.validate_python(text)


@pytest.mark.parametrize(
    ("extent", "size", "found"),
    [
        ("64*K", 128, ("K", 2)),
        ("64*K", 100, None),
        ("B+1", 8, ("B", 7)),
        ("B+1", 1, None),
        ("M*R+2", 14, ("R", 4)),
        ("R*R", 9, None),
        ("R*S", 9, None),
        ("M", 3, None),
    ],
)
def test_an_unknown_dimension_follows_from_a_size(extent: str, size: int, found: tuple[str, int] | None) -> None:
    assert solved(extent, size, {"M": 3}) == found
