"""An empty cell beside a filled one, and the best of its neighbours as a parent."""

import random
from collections.abc import Sequence

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy


class TargetCell(SelectionPolicy):
    """Aims where nobody has been yet. Without a grid, or with no empty neighbour left, any elite will do."""

    name = "target_cell"
    meaning = "aims at an empty cell beside a filled one, from the best of the cells around it"

    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Choose a random empty neighbour, and the elite closest to it."""
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
