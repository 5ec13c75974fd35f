"""Loads of the next piece of the work in flight while this one computes."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import kernels
from service.emitters.rules.patterns import calls, expression, set_operand, text
from service.emitters.rules.programs import ProgramMapping, programs

OPTIONS = {"num_stages": ("2", "3"), "flatten": ("True",)}
"""Values of each compiler option: pieces in flight (two are a double buffer), or one loop made of two nested ones."""


class PipelinePieces(Rule[ProgramMapping]):
    """A program that strides over rows waits for each row's loads, unless the next row's are under way already."""

    name = "pipeline_pieces"
    meaning = "ask the compiler to double-buffer a program's pieces, or to flatten their loop with the one inside"

    def sites(self, module: ast.Module) -> Iterable[ProgramMapping]:
        """Find kernels whose programs have several pieces."""
        return (found for kernel in kernels(module) if (found := programs(kernel)) and found.loop)

    def change(self, site: ProgramMapping, rng: random.Random) -> None:
        """Add the option to the loop over pieces."""
        assert site.loop is not None and isinstance(site.loop.iter, ast.Call)
        nested = any(isinstance(line, ast.For) for line in site.loop.body)
        dots = bool(calls(site.loop, "tl.dot"))
        option = "flatten" if nested and (dots or rng.random() < 0.5) else "num_stages"
        count = text(site.loop.iter.args[0])
        site.loop.iter = expression(f"tl.range(0, {count})")
        assert isinstance(site.loop.iter, ast.Call)
        set_operand(site.loop.iter, 99, option, rng.choice(OPTIONS[option]))
