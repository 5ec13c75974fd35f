"""The rule contract: one way to write a candidate differently that computes the same.

A rule never guesses. It looks for places where its pattern is surely there (`sites`), and changes one (`change`).
Matching is the hard part and may give up; changing may not fail.
"""

import ast
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from service.emitters.rules.facts import ELEMENTWISE, HINTS, REDUCTIONS
from service.operators.sources import dotted, parse, render, walk, without_texts

Site = TypeVar("Site")

REMEMBERED = 8192
"""Pairs of a rule and a source of which it is remembered whether the one applies to the other."""

PARSED = 4
"""Trees that are kept, each a megabyte or less: one source is shown to one rule after the other."""

MAX_NODES = 6000
"""Nodes of the largest tree that is looked at; the catalogue's kernels have 195 to 1891."""

OPERANDS = {"tl.load": 1, "tl.store": 2, "tl.arange": 2, "tl.program_id": 1, "tl.num_programs": 1, "tl.cast": 1}
OPERANDS |= dict.fromkeys((*ELEMENTWISE, *REDUCTIONS, *HINTS, "tl.dot"), 1)
"""Operands that functions of Triton must be passed by position for rules to know them."""


class Rule(ABC, Generic[Site]):
    """One rewriting.

    Attributes:
        name: What notes call it; also its key in the table.
        meaning: What it does and what it may win, in one line.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]

    @abstractmethod
    def sites(self, module: ast.Module) -> Iterable[Site]:
        """Places where the rule surely keeps what the candidate computes. Leaves the tree as it is."""

    @abstractmethod
    def change(self, site: Site, rng: random.Random) -> None:
        """Rewrite one place, in the tree that it was found in."""

    def applies(self, source: str) -> bool:
        """Whether there is such a place in a source."""
        return _applies(self, source)

    def rewrite(self, source: str, rng: random.Random) -> str | None:
        """The source with one place rewritten, or None if the rule does not apply to it."""
        if not self.applies(source):
            return None
        module = parse(source)
        self.change(rng.choice(list(self.sites(module))), rng)
        try:
            return render(without_texts(module))
        except SyntaxError:
            return None


@lru_cache(REMEMBERED)
def _applies(rule: Rule[Any], source: str) -> bool:
    """Whether a rule finds a place: most find none, and elites are parents again and again."""
    try:
        module = _readable(source)
        return module is not None and any(True for _ in rule.sites(module))
    except (SyntaxError, RecursionError):
        return False


@lru_cache(PARSED)
def _readable(source: str) -> ast.Module | None:
    """A source's tree for all rules to look at and none to change; None if there is no reading it."""
    module = parse(source)
    return module if is_readable(module) else None


def is_readable(module: ast.Module) -> bool:
    """Whether a tree is small enough, and calls Triton in the usual way: operands first, by position."""
    nodes = list(walk(module))
    found = [node for node in nodes if isinstance(node, ast.Call) and dotted(node.func) in OPERANDS]
    starred = any(isinstance(item, ast.Starred) for call in found for item in call.args)
    return len(nodes) <= MAX_NODES and not starred and all(len(c.args) >= OPERANDS[dotted(c.func)] for c in found)
