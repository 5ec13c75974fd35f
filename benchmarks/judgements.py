"""What `reef judge` says of every seed and of every broken or hostile candidate, and how long it takes.

python -m benchmarks.judgements
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.record import write
from service.catalogue import load_catalogue
from service.judgement import Judge
from tests.workers.tracer.jobs import candidate, operator
from workers.protocol import Device, Operator

ROGUES = Path(__file__).parents[1] / "tests" / "workers" / "rogues"
DEVICE = Device.parse("model:sm_90")


async def judge_all(spec: Operator, sources: Mapping[str, str]) -> list[dict[str, Any]]:
    """Judge candidates of one operator, one after another on warm benches; rows with seconds by stage."""
    rows = []
    async with Judge(spec, DEVICE) as judge:
        await judge.judge(spec.seeds[0])
        for name, source in sources.items():
            started = time.perf_counter()
            judgement = await judge.judge(source)
            rows.append(
                {
                    "operator": spec.name,
                    "candidate": name,
                    "outcome": judgement.outcome.value,
                    "reason": judgement.reason,
                    "line": judgement.line,
                    "seconds": round(time.perf_counter() - started, 3),
                    "stages_s": {stage: round(spent, 3) for stage, spent in judgement.stages_s.items()},
                }
            )
            print(rows[-1]["candidate"], rows[-1]["outcome"], rows[-1]["seconds"])
    return rows


async def main() -> None:
    """Judge everything and write `results/judgements.json`."""
    rows = []
    for name, spec in load_catalogue().items():
        rows += await judge_all(spec, {f"{name} seed": spec.seeds[0]})
    rogues = {f"{path.parent.name}/{path.stem}": path.read_text() for path in sorted((ROGUES / "host").rglob("*.py"))}
    scale = operator(seeds=[candidate()], ranges={"M": [1, 64], "N": [1, 128]})
    rows += await judge_all(scale, rogues)
    print(write("judgements", rows))


if __name__ == "__main__":
    asyncio.run(main())
