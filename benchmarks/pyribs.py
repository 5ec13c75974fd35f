"""Results of pyribs for a stream of offers, which the archive's tests compare with ours.

    pip install --target /tmp/pyribs-site ribs
    PYTHONPATH=.:/tmp/pyribs-site python -m benchmarks.pyribs

Every offer is told with pyribs' answer to it; then the statistics and the holders of a `GridArchive` at the end.
"""

import argparse
import json
import random
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from archive.grid import Grid
from archive.records import AxisRecord

FIXTURE = Path(__file__).parents[1] / "tests" / "archive" / "pyribs.json"
AXES = (AxisRecord("programs_per_sm", 4), AxisRecord("num_warps", 3), AxisRecord("registers", 2))
OFFERS = 150
LEFT_EMPTY = 3
"""Cells at the end of the grid that nobody is offered for, so that coverage stays below 1."""


def main() -> None:
    """Offer, and write down what came of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=FIXTURE)
    chosen = options.parse_args()
    rng, grid, dims = random.Random(7), Grid(AXES), [axis.bins for axis in AXES]
    archive = import_module("ribs.archives").GridArchive(
        solution_dim=1, dims=dims, ranges=[(-0.5, bins - 0.5) for bins in dims]
    )
    offers = []
    for serial in range(OFFERS):
        # Few values, so that ties are offered too.
        cell, objective = rng.randrange(grid.cells - LEFT_EMPTY), rng.randrange(-4, 9) / 4
        answer = archive.add_single([serial], objective, grid.bins(cell))
        offers.append([cell, objective, int(answer["status"])])
    stats = archive.stats
    columns = archive.data(["index", "objective", "solution"], return_type="tuple")
    document = {
        "pyribs": version("ribs"),
        "axes": {axis.descriptor: axis.bins for axis in AXES},
        "statistics": {
            "elites": int(stats.num_elites),
            "coverage": float(stats.coverage),
            "qd_score": float(stats.qd_score),
            "norm_qd_score": float(stats.norm_qd_score),
            "best": float(stats.obj_max),
        },
        "holders": sorted([int(cell), float(worth), int(kept[0])] for cell, worth, kept in zip(*columns, strict=True)),
        "offers": offers,
    }
    chosen.out.write_text(json.dumps(document) + "\n")
    print(chosen.out)


if __name__ == "__main__":
    main()
