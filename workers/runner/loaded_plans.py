"""The bundles that the runner holds, one per side, with those of their plans that were requested."""

from base64 import b64decode
from dataclasses import dataclass

from workers.commands import LoadBundle, PairSide
from workers.device_kernels import ContentSpec, timed_content
from workers.errors import BadMessage
from workers.protocol import Operator, Plan
from workers.runner.arena import Arena
from workers.runner.replay import LoadedKernels, ReplayedPlan


@dataclass(frozen=True)
class LoadedPlan:
    """One plan of a side on the card, its operator, and the content of its inputs when it is timed."""

    operator: Operator
    loaded: ReplayedPlan
    contents: tuple[ContentSpec, ...]

    @property
    def plan(self) -> Plan:
        """The plan itself."""
        return self.loaded.plan


class LoadedPlans:
    """Bundles by side, whose slots are in one arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._operators: dict[PairSide, Operator] = {}
        self._kernels: dict[PairSide, LoadedKernels] = {}
        self._loaded_plans: dict[tuple[PairSide, int], LoadedPlan] = {}

    def load(self, order: LoadBundle) -> None:
        """Load a side's bundle in place of the former one, of which nothing may still run."""
        self._drop(order.side)
        code = {digest: b64decode(text) for digest, text in order.machine_code.items()}
        self._operators[order.side] = order.operator
        self._kernels[order.side] = LoadedKernels(order.bundle, code)

    def loaded_plan(self, side: PairSide, index: int) -> LoadedPlan:
        """Return a side's plan by its position in the bundle, loading it if needed.

        Raises:
            CannotRun: If the card cannot run it.
            BadMessage: If there is no such plan, or its inputs differ from the operator's.
        """
        if (side, index) not in self._loaded_plans:
            self._loaded_plans[side, index] = self._enter(side, index)
        return self._loaded_plans[side, index]

    def clear(self) -> None:
        """Drop everything. Nothing may still run."""
        for side in PairSide:
            self._drop(side)

    def _enter(self, side: PairSide, index: int) -> LoadedPlan:
        kernels = self._kernels.get(side)
        if kernels is None or not 0 <= index < len(kernels.bundle.plans):
            raise BadMessage(f"there is no plan {index} of the {side}")
        operator, plan = self._operators[side], kernels.bundle.plans[index]
        contents = timed_content(operator, plan.shape)
        if [spec.bytes for spec in contents] != [buffer.bytes for buffer in plan.buffers if buffer.input is not None]:
            raise BadMessage(f"plan {index} of the {side} is not for the inputs of {operator.name}")
        return LoadedPlan(operator, ReplayedPlan(kernels, plan, self._arena), contents)

    def _drop(self, side: PairSide) -> None:
        self._loaded_plans = {key: loaded_plan for key, loaded_plan in self._loaded_plans.items() if key[0] is not side}
        self._operators.pop(side, None)
        kernels = self._kernels.pop(side, None)
        if kernels is not None:
            kernels.close()
