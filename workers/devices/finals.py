"""What finalists are asked besides: the names of these checks, and what shapes and draws they are run on."""

from collections.abc import Iterator

from workers.inputs import DRAWS
from workers.protocol import Bundle, CheckResult, Plan, ShapeRole
from workers.sanitizer import TOOLS

RANDOM_SHAPES = "random_shapes"
"""The check that runs shapes which nobody could know."""
FINAL_CHECKS = (RANDOM_SHAPES, *TOOLS)
"""Checks of finalists by name, in the order in which they are made."""

_OTHERS = tuple(name for name in DRAWS if name != "normal")


def random_plans(bundle: Bundle) -> Iterator[tuple[int, Plan, tuple[str, ...]]]:
    """A bundle's plans of random shapes: position, plan, and its draws, which are `normal` and one more in turn."""
    plans = [(index, plan) for index, plan in enumerate(bundle.plans) if plan.shape.role is ShapeRole.RANDOM]
    for number, (index, plan) in enumerate(plans):
        yield index, plan, ("normal", _OTHERS[number % len(_OTHERS)])


def skipped(name: str, why: str) -> CheckResult:
    """A check that was not made, and why not."""
    return CheckResult(name=name, verdict="skipped", detail=why)
