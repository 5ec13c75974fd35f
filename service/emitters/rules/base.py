"""Contract of a rule: one change of a candidate's text that keeps what it computes.

A rule never guesses. It finds places that match its pattern with certainty (`sites`), and changes one (`change`).
Matching is the hard part and may give up; changing may not fail.
"""

import ast
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from service.emitters.rules.facts import ELEMENTWISE, HINTS, REDUCTIONS
from service.operators.sources import dotted, parse, render, walk, without_texts
from workers.protocol import is_before

Site = TypeVar("Site")

REMEMBERED = 8192
"""Maximum number of cached answers, one per pair of rule and source."""

PARSED = 4
"""Maximum number of cached trees, each a megabyte or less: all rules in turn look at one source."""

MAX_NODES = 6000
"""Maximum number of nodes in a tree; the catalogue's kernels have 195 to 1891."""

OPERANDS = {"tl.load": 1, "tl.store": 2, "tl.arange": 2, "tl.program_id": 1, "tl.num_programs": 1, "tl.cast": 1}
OPERANDS |= dict.fromkeys((*ELEMENTWISE, *REDUCTIONS, *HINTS, "tl.dot"), 1)
"""Number of operands that rules expect by position, by function of Triton."""


class Rule(ABC, Generic[Site]):
    """One kind of rewriting.

    Attributes:
        name: Name in notes; also its key in the table.
        meaning: Its effect and purpose, in one line.
        offered_before: First release of Triton that warns of what it writes, or does not know it; empty if none does.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    offered_before: ClassVar[str] = ""

    @abstractmethod
    def sites(self, module: ast.Module) -> Iterable[Site]:
        """Find places where the rule certainly keeps what the candidate computes. Does not change the tree."""

    @abstractmethod
    def change(self, site: Site, rng: random.Random) -> None:
        """Rewrite one place, in the tree that it was found in."""

    def is_known_to(self, compilers: Collection[str]) -> bool:
        """Return True if all of some releases of Triton know what it writes; without any, all that are supported."""
        return not self.offered_before or (
            bool(compilers) and all(is_before(release, self.offered_before) for release in compilers)
        )

    def applies(self, source: str) -> bool:
        """Return True if a source has such a place."""
        return _applies(self, source)

    def rewrite(self, source: str, rng: random.Random) -> str | None:
        """Rewrite one place of a source; None if the rule does not apply to it."""
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
    """Return True if a rule finds a place. Cached: most find none, and elites are parents many times."""
    try:
        module = _readable(source)
        return module is not None and any(True for _ in rule.sites(module))
    except (SyntaxError, RecursionError):
        return False


@lru_cache(PARSED)
def _readable(source: str) -> ast.Module | None:
    """Parse a source for all rules, which must not change the tree; None if it is not readable."""
    module = parse(source)
    return module if is_readable(module) else None


def is_readable(module: ast.Module) -> bool:
    """Return True if a tree is small enough, and calls Triton in the usual way: operands first, by position."""
    nodes = list(walk(module))
    found = [node for node in nodes if isinstance(node, ast.Call) and dotted(node.func) in OPERANDS]
    starred = any(isinstance(item, ast.Starred) for call in found for item in call.args)
    return len(nodes) <= MAX_NODES and not starred and all(len(c.args) >= OPERANDS[dotted(c.func)] for c in found)
