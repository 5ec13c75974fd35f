"""Target: an empty cell beside a filled one, with the best of its neighbours as a parent."""

import random
from collections.abc import Sequence

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy


class TargetCell(SelectionPolicy):
    """Chooses empty cells as targets. Without a grid, or with no empty neighbour left, it chooses any elite."""

    name = "target_cell"
    meaning = "aims at an empty cell beside a filled one, from the best of the cells around it"

    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Choose a random empty neighbour, and the best elite around it."""
        filled = {elite.cell: elite for elite in elites}
        grid = around.grid
        empty = (
            [] if grid is None else sorted({near for cell in filled for near in grid.neighbours(cell)} - set(filled))
        )
        if grid is None or not empty:
            return ParentChoice(rng.choice(elites))
        aim = rng.choice(empty)
        beside = [filled[cell] for cell in grid.neighbours(aim) if cell in filled]
        return ParentChoice(max(beside, key=lambda elite: elite.objective), aim)
