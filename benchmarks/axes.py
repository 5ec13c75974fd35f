"""Descriptors' power to tell recorded kernels apart, and pictures of their bins.

    python -m benchmarks.axes --landscapes operators/landscapes/h200

Written are `axes.json` (by operator, how kernels spread over the bins of every descriptor and over the cells of every
three of them) and `docs/pictures/axes/<descriptor>.svg`: what each bin is, how many of the recorded kernels lie in it,
and how fast the best of these is.
"""

import argparse
from collections.abc import Mapping, Sequence
from html import escape
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS, Descriptor, coordinates
from archive.grid import Grid
from benchmarks.census import Counting, Spread
from benchmarks.record import RESULTS, write
from benchmarks.recorded_space import RecordedKernel, RecordedSpace, load

PICTURES = Path(__file__).parents[1] / "docs" / "pictures" / "axes"
ROW, TOP, LEFT, COLUMN, BAR = 26, 74, 190, 112, 60
SHOWN = 12
"""Combinations of axes that are written down, the best first."""
Row = dict[str, Any]


def correct(space: RecordedSpace) -> list[RecordedKernel]:
    """One kernel a bundle, of those that were correct."""
    return list({kernel.bundle: kernel for kernel in space.kernels if kernel.objective is not None}.values())


def spread(kernels: Sequence[RecordedKernel], axes: Sequence[str]) -> Spread:
    """Measure the spread of kernels over the cells of these axes."""
    counting = Counting([DESCRIPTORS[name].axis for name in axes])
    for kernel in kernels:
        counting.add(coordinates(kernel.readings))
    return counting.census().cells


def by_descriptor(operator: str, kernels: Sequence[RecordedKernel]) -> list[Row]:
    """A row a descriptor: what it tells, and the other that tells most of the same."""
    counting = Counting([DESCRIPTORS[name].axis for name in DEFAULT_AXES])
    for kernel in kernels:
        counting.add(coordinates(kernel.readings))
    census = counting.census()
    rows = []
    for name, found in census.descriptors.items():
        kin = {(set(pair) - {name}).pop(): share for pair, share in census.shared.items() if name in pair}
        nearest = max(kin, key=lambda other: kin[other], default="")
        rows.append(
            {
                "operator": operator,
                "descriptor": name,
                "kernels": found.kernels,
                "reached": found.reached,
                "bins": found.places,
                "entropy_bits": round(found.entropy_bits, 3),
                "effective": round(found.effective, 2),
                "largest_share": round(found.largest_share, 3),
                "nearest": nearest,
                "shared_with_nearest": round(kin.get(nearest, 0.0), 3),
            }
        )
    return rows


def combined(found: Mapping[str, Sequence[RecordedKernel]]) -> list[Row]:
    """Rank every three descriptors by what they tell together: means over operators, the most effective cells first."""
    rows = []
    for axes in combinations(DESCRIPTORS, 3):
        spreads = {operator: spread(kernels, axes) for operator, kernels in found.items()}
        rows.append(
            {
                "axes": axes,
                "cells": Grid([DESCRIPTORS[name].axis for name in axes]).cells,
                "effective": round(fmean(item.effective for item in spreads.values()), 2),
                "least_effective": round(min(item.effective for item in spreads.values()), 2),
                "reached": round(fmean(item.reached for item in spreads.values()), 1),
            }
        )
    return sorted(rows, key=lambda row: -row["effective"])


def picture(descriptor: Descriptor, found: Mapping[str, Sequence[RecordedKernel]]) -> str:
    """A table of the bins: how many of each operator's kernels lie there, and the best objective among them."""
    width, height = LEFT + COLUMN * len(found) + 20, TOP + ROW * len(descriptor.labels) + 34
    unit = f", {descriptor.unit}" if descriptor.unit else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
        f'font-size="12" role="img" aria-label="{escape(descriptor.name)}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="14" y="22" font-size="15">{escape(descriptor.name)}{escape(unit)}</text>',
        f'<text x="14" y="42" fill="#555">{escape(descriptor.meaning)}</text>',
    ]
    for column, (operator, kernels) in enumerate(found.items()):
        x = LEFT + COLUMN * column
        parts.append(f'<text x="{x}" y="{TOP - 8}" fill="#555">{escape(operator)}</text>')
        bins = [descriptor.coordinate(kernel.readings) for kernel in kernels]
        for row in range(len(descriptor.labels)):
            here = [k.objective or 0.0 for k, at in zip(kernels, bins, strict=True) if at and at["bin"] == row]
            y, share = TOP + ROW * row, len(here) / max(1, len(kernels))
            parts.append(f'<rect x="{x}" y="{y + 3}" width="{BAR * share:.1f}" height="{ROW - 10}" fill="#a8ddd6"/>')
            told = f"{share:.0%} · {max(here):.2f}" if here else "none"
            parts.append(f'<text x="{x + 4}" y="{y + 16}">{told}</text>')
    for row, label in enumerate(descriptor.labels):
        parts.append(f'<text x="14" y="{TOP + ROW * row + 16}">{escape(label)}</text>')
    foot = "share of the kernels recorded on an H200 · best lower bound of the speedup over the seed among them"
    parts.append(f'<text x="14" y="{height - 10}" fill="#555" font-size="11">{escape(foot)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Count, and draw."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--landscapes", type=Path, required=True, help="folder with a file an operator")
    options.add_argument("--out", type=Path, default=RESULTS)
    options.add_argument("--pictures", type=Path, default=PICTURES)
    chosen = options.parse_args()
    grid = Grid([DESCRIPTORS[name].axis for name in DEFAULT_AXES])
    paths = sorted(chosen.landscapes.glob("*.jsonl.gz"))
    found = {path.name.partition(".")[0]: correct(load(path, grid)) for path in paths}
    rows = [row for operator, kernels in found.items() for row in by_descriptor(operator, kernels)]
    together = combined(found)
    default = next(row for row in together if set(row["axes"]) == set(DEFAULT_AXES))
    write("axes", rows, chosen.out, combinations=together[:SHOWN], default=default)
    chosen.pictures.mkdir(parents=True, exist_ok=True)
    for name, descriptor in DESCRIPTORS.items():
        (chosen.pictures / f"{name}.svg").write_text(picture(descriptor, found))
    for row in [*together[:SHOWN], default]:
        print(row)


if __name__ == "__main__":
    main()
