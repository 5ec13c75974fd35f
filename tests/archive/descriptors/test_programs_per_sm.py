"""Grids of RMSNorm on 4096 rows and 132 SMs: a few programs, persistent, one to four rows a program, a split row."""

import pytest

from archive.descriptors.programs_per_sm import ProgramsPerSm


@pytest.mark.parametrize(
    "reading, label",
    [
        (0.5, "under 1"),
        (1.0, "1"),
        (2.0, "2-3"),
        (7.76, "4-7"),
        (15.5, "8-15"),
        (31.03, "16-31"),
        (62.06, "32-63"),
        (4096.0, "64 or more"),
    ],
)
def test_kernels_lie_where_their_label_says(reading: object, label: str) -> None:
    coordinate = ProgramsPerSm().coordinate({"programs_per_sm": reading})
    assert coordinate is not None
    assert ProgramsPerSm.labels[coordinate["bin"]] == label
