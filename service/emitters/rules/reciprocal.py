"""One division per row and a product per element, in place of a division per element."""

import ast
import random
from collections.abc import Iterable, Iterator

from service.emitters.rules.base import Rule
from service.emitters.rules.facts import Known, facts_of, infer
from service.emitters.rules.patterns import expression, text
from service.operators.sources import jit_functions, walk


class Reciprocal(Rule[ast.BinOp]):
    """A float32 division is a dozen instructions, a product is one."""

    name = "reciprocal"
    meaning = "divide once a row, then multiply"

    def sites(self, module: ast.Module) -> Iterable[ast.BinOp]:
        """Find divisions of a float32 tile by a float32 value with fewer elements."""
        return (node for function in jit_functions(module).values() for node in _divisions(function))

    def change(self, site: ast.BinOp, rng: random.Random) -> None:
        """Turn the division into a product."""
        site.op, site.right = ast.Mult(), expression(f"1.0 / ({text(site.right)})")


def _divisions(function: ast.FunctionDef) -> Iterator[ast.BinOp]:
    known = facts_of(function)
    nodes = (node for node in walk(function) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
    return (node for node in nodes if _pays(node, known))


def _pays(node: ast.BinOp, known: Known) -> bool:
    left, right = infer(node.left, known), infer(node.right, known)
    if left is None or right is None or not left.dtype == right.dtype == "float32":
        return False
    return _extents(right.shape) < _extents(left.shape)


def _extents(shape: tuple[str, ...]) -> set[str]:
    return set(shape) - {"1"}
