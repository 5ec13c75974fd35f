"""First seed kernel, for drafts of TorchInductor that multiply float32 without tensor cores."""

import random

from service.emitters.rules import RULES
from service.emitters.rules.patterns import calls, set_keyword
from service.operators.sources import launches, parse, render

OPTIONS = {"num_warps": 4, "num_stages": 3}
"""Launch options of kernels with products, at the drafts' tiles of 128 by 64. A product of 2048x8192x4096 took 2,483 us
with them on an H200 (2026-11-25), 3,418 with 8 warps and 4 stages, 3,131 as float32, and 2,655 in cuBLAS."""


def on_matrix_units(draft: str) -> str | None:
    """Rewrite each float32 product of a draft as three TF32 products; returns None if it has no such product."""
    source, rule, rng = draft, RULES["tf32x3"], random.Random(0)
    while (changed := rule.rewrite(source, rng)) is not None:
        source = changed
    if source == draft:
        return None
    module = parse(source)
    for launch in (each for each in launches(module) if calls(each.kernel, "tl.dot")):
        for name, value in OPTIONS.items():
            set_keyword(launch.call, name, str(value))
    return render(module)
