"""Some warps of a program only fetch what the others compute with."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import in_clusters, kernels
from service.emitters.rules.loops import Sweep, sweep
from service.emitters.rules.patterns import calls, expression, flat, set_operand, text


class WarpSpecialize(Rule[Sweep]):
    """Warps that wait for memory cannot multiply; with descriptors one warp can fetch for all.

    Triton 3.7 compiles this for sm_90 at four warps only where all operands come through tensor descriptors,
    and not in a cluster.
    """

    name = "warp_specialize"
    meaning = "let some warps of a matrix product fetch for the others"

    def sites(self, module: ast.Module) -> Iterable[Sweep]:
        """Find sweeps that multiply only operands fetched by descriptors, and lack the option."""
        alone = [item.function for item in kernels(module) if item.function not in in_clusters(module)]
        lines = (line for function in alone for line in flat(function.body))
        found = (site for line in lines if (site := sweep(line)))
        return (
            site
            for site in found
            if calls(site.loop, "tl.dot")
            and (choices := _choices(site))
            and sum(len(calls(node, "tl.load")) for node in choices) == len(calls(site.loop, "tl.load"))
            and not any(item.arg == "warp_specialize" for item in _head(site).keywords)
        )

    def change(self, site: Sweep, rng: random.Random) -> None:
        """Add the option to the loop; it is on if the launch uses the descriptors."""
        _head(site).func = expression("tl.range")
        set_operand(_head(site), 99, "warp_specialize", " & ".join(text(node.test) for node in _choices(site)))


def _choices(site: Sweep) -> list[ast.If]:
    """Return the branches in which a flag of the launch chooses between a descriptor and a load."""
    nodes = (node for node in site.loop.body if isinstance(node, ast.If))
    return [node for node in nodes if calls(node, "tl.make_tensor_descriptor")]


def _head(site: Sweep) -> ast.Call:
    assert isinstance(site.loop.iter, ast.Call)
    return site.loop.iter
