"""A run of neighbouring pieces of the work for each program."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import declare, kernels
from service.emitters.rules.programs import PROGRAM, RUN, ProgramMapping, share, shareable

LENGTHS = (2, 4, 8)
"""Pieces per program to start from; `tune` varies the number."""


class RunOfPieces(Rule[ProgramMapping]):
    """Programs become fewer and longer, and pieces that are neighbours in memory follow each other in time."""

    name = "run_of_pieces"
    meaning = "give each program a run of neighbouring pieces, one after the other"

    def sites(self, module: ast.Module) -> Iterable[ProgramMapping]:
        """Find kernels with one piece per program and a grid of one axis."""
        return (site for kernel in kernels(module) if (site := shareable(kernel)))

    def change(self, site: ProgramMapping, rng: random.Random) -> None:
        """Wrap the kernel's body in a loop over the run."""
        length = rng.choice(LENGTHS)
        names = {launch: declare(launch, "RUN", length) for launch in site.kernel.launches}
        run = site.kernel.add_parameter("RUN", names.__getitem__, constexpr=True)
        head, number = RUN.format(run=run, count="{count}"), f"{PROGRAM} * {run} + {{turn}}"
        share(site, head, number, lambda launch, count: f"triton.cdiv({count}, {names[launch]})")
