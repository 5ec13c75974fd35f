"""Additional checks of finalists: their names, and the shapes and draws they run on."""

from collections.abc import Iterator

from workers.inputs import DRAWS
from workers.protocol import Bundle, CheckResult, Operator, Plan, ShapeRole
from workers.sanitizer import TOOLS

RANDOM_SHAPES = "random_shapes"
"""The check that runs shapes that no candidate could know."""
FAR_INDICES = "far_indices"
"""The check that runs a shape at which an input has more than 2^31 elements."""
FINAL_CHECKS = (RANDOM_SHAPES, *TOOLS, FAR_INDICES)
"""Checks of finalists by name, in order."""

_OTHERS = tuple(name for name in DRAWS if name != "normal")


def random_plans(bundle: Bundle, operator: Operator) -> Iterator[tuple[int, Plan, tuple[str, ...]]]:
    """Yield a bundle's plans of random shapes: position, plan, and its draws, which are `normal` and one more in turn.

    Shapes with indices beyond 2^31 are left out.
    """
    for number, (index, plan) in enumerate(_of_random_shapes(bundle, operator, far=False)):
        yield index, plan, ("normal", _OTHERS[number % len(_OTHERS)])


def far_plan(bundle: Bundle, operator: Operator) -> Plan | None:
    """Return a bundle's plan of a random shape with indices beyond 2^31, if there is one."""
    return next((plan for _, plan in _of_random_shapes(bundle, operator, far=True)), None)


def skipped(name: str, why: str) -> CheckResult:
    """Return the result of a check that was not made, with the reason."""
    return CheckResult(name=name, verdict="skipped", detail=why)


def _of_random_shapes(bundle: Bundle, operator: Operator, *, far: bool) -> Iterator[tuple[int, Plan]]:
    for index, plan in enumerate(bundle.plans):
        if plan.shape.role is ShapeRole.RANDOM and operator.is_far(plan.shape.dims) is far:
            yield index, plan
