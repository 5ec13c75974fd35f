"""A ceiling on the registers of a thread."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.operators.sources import LaunchSite, decorators, launches

CEILINGS = (64, 96, 128, 168)
"""Registers per thread that let 8, 5, 4 and 3 blocks of 128 threads share a register file of 65536."""


class LimitRegisters(Rule[LaunchSite]):
    """More programs fit a multiprocessor, if the spills cost less than they win."""

    name = "limit_registers"
    meaning = "cap the registers of a thread, so that more programs are resident"

    def sites(self, module: ast.Module) -> Iterable[LaunchSite]:
        """Find launches of kernels that are not autotuned and have no ceiling yet."""
        found = (item for item in launches(module) if len(decorators(item.kernel)) == 1)
        return (item for item in found if "maxnreg" not in item.keywords)

    def change(self, site: LaunchSite, rng: random.Random) -> None:
        """Pass the option."""
        site.call.keywords.append(ast.keyword("maxnreg", ast.Constant(rng.choice(CEILINGS))))
