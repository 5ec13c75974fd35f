"""Cache and eviction hints on loads and stores."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.patterns import calls, is_call, set_operand, text
from service.operators.sources import jit_functions

LOAD_HINTS = {"cache_modifier": (".ca", ".cg"), "eviction_policy": ("evict_first", "evict_last")}
STORE_HINTS = {"cache_modifier": (".cg", ".cs"), "eviction_policy": ("evict_first", "evict_last")}
"""Hints that Triton accepts, without the modifiers that change memory ordering between threads."""


class CacheHint(Rule[ast.Call]):
    """Data read once should leave the caches first, data that every program reads should stay."""

    name = "cache_hint"
    meaning = "tell the caches what to keep and what to evict"

    def sites(self, module: ast.Module) -> Iterable[ast.Call]:
        """Find every load and store, except those with so many positional arguments that one may be a hint."""
        found = (call for function in jit_functions(module).values() for call in calls(function, "tl.load", "tl.store"))
        return (call for call in found if len(call.args) <= 3)

    def change(self, site: ast.Call, rng: random.Random) -> None:
        """Give a load or a store another hint than it has, and only one: the machine cannot combine them."""
        table = LOAD_HINTS if is_call(site, "tl.load") else STORE_HINTS
        hints = [(name, repr(value)) for name, values in table.items() for value in values]
        present = [(item.arg, text(item.value)) for item in site.keywords]
        keyword, value = rng.choice([hint for hint in hints if hint not in present])
        site.keywords = [item for item in site.keywords if item.arg not in table]
        set_operand(site, 99, keyword, value)
