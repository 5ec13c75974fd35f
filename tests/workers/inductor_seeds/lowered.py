"""What Inductor writes for an operator, in its sandbox: host code and kernels."""

import json
from functools import partial

from tests.workers.tracer.jobs import in_jail
from workers.inductor_seeds.lowering import lower
from workers.targets import TARGETS


def lowered(of, target="sm_90", before=lambda: None) -> dict:
    def run(of, _: bytes) -> bytes:
        before()
        found = lower(of, TARGETS[target])
        kernels = [[item.name, item.text, item.grid, dict(item.options)] for item in found.kernels.values()]
        return json.dumps({"host": found.host, "kernels": kernels}).encode()

    return json.loads(in_jail(partial(run, of)))
