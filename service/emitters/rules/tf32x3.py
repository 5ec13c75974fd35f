"""Float32 products on the matrix units, as three products of TF32 parts."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.patterns import calls, text
from service.operators.sources import jit_functions

OPERANDS = ("input", "other", "acc")
"""Operands that `tl.dot` may get by position; the rule applies only if all others are keywords."""


class Tf32x3(Rule[ast.FunctionDef]):
    """Exact float32 products leave the matrix units idle; three TF32 products are nearly as exact.

    For operands narrower than float32 the option has no effect. `tf32` alone is coarser than float32 and is never
    written. No rule reverts this one: the kernel with float32 products stays in the archive.
    """

    name = "tf32x3"
    meaning = "multiply float32 on the matrix units, as three products of TF32 parts"

    def sites(self, module: ast.Module) -> Iterable[ast.FunctionDef]:
        """Find kernels with products that ask for exact float32 by keyword."""
        return (function for function in jit_functions(module).values() if _exact_products(function))

    def change(self, site: ast.FunctionDef, rng: random.Random) -> None:
        """Change every such product in the kernel."""
        for call in _exact_products(site):
            call.keywords = [item for item in call.keywords if item.arg not in ("input_precision", "allow_tf32")]
            call.keywords.append(ast.keyword("input_precision", ast.Constant("tf32x3")))


def _exact_products(function: ast.FunctionDef) -> list[ast.Call]:
    return [call for call in calls(function, "tl.dot") if _is_exact(call)]


def _is_exact(call: ast.Call) -> bool:
    """Return True if a product says, by keyword, that float32 operands are multiplied as they are."""
    said = {item.arg: text(item.value).lower() for item in call.keywords if item.arg is not None}
    if len(said) < len(call.keywords) or len(call.args) > len(OPERANDS):
        return False
    return said.get("input_precision", said.get("allow_tf32")) in ("'ieee'", "false")
