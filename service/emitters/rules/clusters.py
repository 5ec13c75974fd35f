"""Several thread blocks for one program."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.patterns import calls
from service.operators.sources import Launch, decorators, launches

CTAS = (2, 4)
"""Thread blocks a program: what fits beside each other on most clusters of sm_90."""


class Clusters(Rule[Launch]):
    """A tile that is too large for one multiprocessor may be shared by two, which read its operands once."""

    name = "clusters"
    meaning = "let a cluster of thread blocks work on one tile"

    def sites(self, module: ast.Module) -> Iterable[Launch]:
        """Launches of kernels that multiply matrices, are not autotuned and do not ask for clusters yet."""
        found = (item for item in launches(module) if len(decorators(item.kernel)) == 1)
        return (item for item in found if "num_ctas" not in item.keywords and calls(item.kernel, "tl.dot"))

    def change(self, site: Launch, rng: random.Random) -> None:
        """Pass the option."""
        site.call.keywords.append(ast.keyword("num_ctas", ast.Constant(rng.choice(CTAS))))
