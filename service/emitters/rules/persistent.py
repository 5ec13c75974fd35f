"""A few programs per multiprocessor that stride over all pieces of the work."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import kernels
from service.emitters.rules.patterns import text
from service.emitters.rules.programs import PERSISTENT, PROGRAM, PROGRAMS, ProgramMapping, share, shareable
from service.operators.sources import LaunchSite

PROGRAMS_PER_SM = (1, 2, 4, 8)
"""Resident programs to start from; `tune` varies the number."""


class MakePersistent(Rule[ProgramMapping]):
    """A persistent program pays its start once, and keeps data that all pieces share."""

    name = "persistent"
    meaning = "launch a few programs per multiprocessor that stride over the work"

    def sites(self, module: ast.Module) -> Iterable[ProgramMapping]:
        """Find kernels with one piece per program and a grid of one axis, given a tensor to ask for the device."""
        return (site for kernel in kernels(module) if (site := shareable(kernel)) and kernel.pointers())

    def change(self, site: ProgramMapping, rng: random.Random) -> None:
        """Wrap the kernel's body in a strided loop."""
        resident = rng.choice(PROGRAMS_PER_SM)

        def host_grid(launch: LaunchSite, count: str) -> str:
            tensor = text(site.kernel.argument(launch, site.kernel.pointers()[0]))
            sms = f"torch.cuda.get_device_properties({tensor}.device).multi_processor_count"
            return f"min({count}, {resident} * {sms})"

        share(site, PERSISTENT, f"{PROGRAM} + {{turn}} * {PROGRAMS}", host_grid)
