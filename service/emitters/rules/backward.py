"""The last piece of the work first."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import kernels
from service.emitters.rules.patterns import expression, text
from service.emitters.rules.programs import ProgramMapping, programs


class ReverseOrder(Rule[ProgramMapping]):
    """A kernel that starts where the one before it ended finds the end of its input in the L2 cache."""

    name = "backward"
    meaning = "do the last piece of the work first"

    def sites(self, module: ast.Module) -> Iterable[ProgramMapping]:
        """Find kernels that know their piece and do not count from the end yet."""
        found = (site for kernel in kernels(module) if (site := programs(kernel)))
        return (site for site in found if f"{site.total} - 1 - " not in text(site.kernel.function))

    def change(self, site: ProgramMapping, rng: random.Random) -> None:
        """Count the pieces from the end."""
        definition = site.definition()
        definition.value = expression(f"{site.total} - 1 - ({text(definition.value)})")
