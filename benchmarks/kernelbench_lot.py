"""KernelBench's problems that the campaign is about, and the lot of those that a model writes kernels for.

    python -m benchmarks.kernelbench_lot PATH --commit COMMIT     # writes kernelbench_lot.tsv: problem, drawn or not

PATH is the folder with `level1`, `level2`, `level3` of a checkout of KernelBench, at the commit that the file names.
All problems of the three levels are listed, whether they can be judged or not. The lot has 30, 30 and 20 of the levels,
drawn by a fixed seed before any of them was searched for.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from service.cli.import_ import problem_files

LOT = Path(__file__).parent / "kernelbench_lot.tsv"
SEED = 20261127
"""Seed of the lot: the day on which it was drawn."""
DRAWN = {"level1": 30, "level2": 30, "level3": 20}
"""Problems of the lot by level."""


class ListedProblem(NamedTuple):
    """A problem, such as `level1/19_ReLU.py`, and True if it is in the lot."""

    key: str
    drawn: bool

    @property
    def level(self) -> str:
        """The level's folder."""
        return self.key.partition("/")[0]


def key_of(path: Path) -> str:
    """Return the name of a problem in lists and tables."""
    return f"{path.parent.name}/{path.name}"


def row_key(problem: str, contract: str, how: str) -> str:
    """Return the key of a row: a problem under a contract, by rules, with a model, or by one of its kernels."""
    return f"{problem} {contract} {how}"


def draw(keys: Sequence[str]) -> list[ListedProblem]:
    """List problems, with those of the lot marked: the same each time."""
    lot = set[str]()
    for level, count in DRAWN.items():
        names = [key for key in keys if key.startswith(f"{level}/")]
        lot.update(random.Random(f"{SEED}:{level}").sample(names, min(count, len(names))))
    return [ListedProblem(key, key in lot) for key in keys]


def write_list(keys: Sequence[str], commit: str, path: Path = LOT) -> None:
    """Write the list, with the commit of the checkout in its first line."""
    head = f"# KernelBench {commit}; lot of seed {SEED}\n"
    path.write_text(head + "".join(f"{each.key}\t{'drawn' if each.drawn else ''}\n" for each in draw(keys)))


def read_list(path: Path = LOT) -> tuple[str, list[ListedProblem]]:
    """Read the commit of the list, and its problems."""
    head, *lines = path.read_text().splitlines()
    rows = (line.split("\t") for line in lines)
    return head.split()[2].rstrip(";"), [ListedProblem(key, mark == "drawn") for key, mark in rows]


def main() -> None:
    """Write the list of a checkout."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("path", type=Path, help="the folder with level1, level2, …")
    options.add_argument("--commit", required=True, help="that of the checkout")
    chosen = options.parse_args()
    keys = [key_of(file) for level in DRAWN for file in problem_files(chosen.path / level)]
    write_list(keys, chosen.commit)
    print(f"{len(keys)} problems, {sum(each.drawn for each in draw(keys))} drawn")


if __name__ == "__main__":
    main()
