"""`tl.exp2` in place of `tl.exp`."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.patterns import calls, expression, replace, text
from service.operators.sources import jit_functions

LOG2_E = 1.4426950408889634
"""Base-2 logarithm of e, so that exp(x) = exp2(x * LOG2_E)."""


class Exp2(Rule[ast.FunctionDef]):
    """The hardware raises 2, not e, to a power; written out, the scale can meet other constants."""

    name = "exp2"
    meaning = "raise 2 instead of e, with the scale written out"

    def sites(self, module: ast.Module) -> Iterable[ast.FunctionDef]:
        """Find kernels that call `tl.exp`."""
        return (function for function in jit_functions(module).values() if calls(function, "tl.exp"))

    def change(self, site: ast.FunctionDef, rng: random.Random) -> None:
        """Change every call in the kernel."""
        for call in reversed(calls(site, "tl.exp")):
            replace(site, call, expression(f"tl.exp2(({text(call.args[0])}) * {LOG2_E})"))
