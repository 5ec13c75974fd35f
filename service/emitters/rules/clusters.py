"""Several thread blocks for one program."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import in_clusters
from service.emitters.rules.patterns import calls
from service.operators.sources import LaunchSite, decorators, dotted, jit_functions, launches, walk

CTAS = (2, 4)
"""Thread blocks per program: these numbers fit most clusters of sm_90."""

CROSSING = frozenset(
    {
        *("sum", "max", "min", "xor_sum", "reduce", "argmax", "argmin", "associative_scan", "cumsum", "cumprod"),
        *("sort", "topk", "flip", "gather", "histogram", "dot_scaled", "static_range"),
    }
)
"""Functions that move values between the blocks of a cluster, or that repeat the product. Triton compiles neither for
sm_90 (tried with 3.7): a second product or a sum along the rows ends its passes."""

REPEATING = ("loop_unroll_factor", "warp_specialize")
"""Options of a loop that do the same."""


class Clusters(Rule[LaunchSite]):
    """A tile that is too large for one multiprocessor may be shared by two, which read its operands once."""

    name = "clusters"
    meaning = "let a cluster of thread blocks work on one tile"

    def sites(self, module: ast.Module) -> Iterable[LaunchSite]:
        """Find launches of kernels that are one matrix product, are not autotuned and do not ask for clusters yet."""
        done, devices = in_clusters(module), jit_functions(module).keys()
        found = (item for item in launches(module) if item.kernel not in done and len(decorators(item.kernel)) == 1)
        return (item for item in found if _is_one_product(item.kernel, CROSSING | devices))

    def change(self, site: LaunchSite, rng: random.Random) -> None:
        """Pass the option."""
        site.call.keywords.append(ast.keyword("num_ctas", ast.Constant(rng.choice(CTAS))))


def _is_one_product(kernel: ast.FunctionDef, forbidden: frozenset[str]) -> bool:
    nodes = list(walk(kernel))
    functions = [item.func for item in nodes if isinstance(item, ast.Call)]
    called = {item.attr if isinstance(item, ast.Attribute) else dotted(item) for item in functions}
    wishes = {item.arg for item in nodes if isinstance(item, ast.keyword)}
    return len(calls(kernel, "tl.dot")) == 1 and not called & forbidden and wishes.isdisjoint(REPEATING)
