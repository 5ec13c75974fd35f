"""Loads of the next turns of a loop in flight while this one computes."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import in_clusters
from service.emitters.rules.loops import Sweep, sweep
from service.emitters.rules.patterns import expression, flat, set_operand
from service.operators.sources import jit_functions, walk

OPTIONS = {"num_stages": (2, 3, 4), "loop_unroll_factor": (2, 4)}
"""Values of each compiler option, from mild to strong."""


class PipelineLoop(Rule[Sweep]):
    """Memory latency is high: loads of several iterations must be in flight at once."""

    name = "pipeline_loop"
    meaning = "ask the compiler to pipeline or unroll a loop"

    def sites(self, module: ast.Module) -> Iterable[Sweep]:
        """Find sweeps without such an option. An unrolled product does not compile in a cluster."""
        functions = [item for item in jit_functions(module).values() if item not in in_clusters(module)]
        lines = (line for function in functions for line in flat(function.body))
        found = (site for line in lines if (site := sweep(line)))
        return (site for site in found if not any(isinstance(node, ast.keyword) for node in walk(site.loop.iter)))

    def change(self, site: Sweep, rng: random.Random) -> None:
        """Add the option to the loop."""
        option = rng.choice(sorted(OPTIONS))
        assert isinstance(site.loop.iter, ast.Call)
        site.loop.iter.func = expression("tl.range")
        set_operand(site.loop.iter, 99, option, str(rng.choice(OPTIONS[option])))
