"""What `reef judge` says of every seed and of every broken or hostile candidate, and how long it takes.

    python -m benchmarks.judgements

`expected` lists the outcomes of which any is right, for what is known to be broken; a kernel that only misbehaves in
the trace may be judged either way afterwards.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.record import write
from service.evaluation.single import Judge
from service.operators.catalogue import load_catalogue
from tests.gpu.rogues import load_rogues
from tests.workers.test_trace_job import EXPECTED
from tests.workers.tracer.jobs import candidate, operator
from workers.protocol import Device, Operator, Outcome

ROOT = Path(__file__).resolve().parents[1]
ROGUES = ROOT / "tests" / "workers" / "rogues"
DEVICE = Device.parse("model:sm_90")


@dataclass(frozen=True)
class ExpectedVerdict:
    """A candidate, and the outcomes of which any is right; None where any is."""

    name: str
    source: str
    expected: frozenset[Outcome] | None


async def judge_all(spec: Operator, items: Iterable[ExpectedVerdict]) -> list[dict[str, Any]]:
    """Judge candidates of one operator, one after another on warm benches; rows with seconds by stage."""
    rows = []
    async with Judge(spec, DEVICE) as judge:
        await judge.judge(spec.seeds[0])
        for item in items:
            started = time.perf_counter()
            judgement = await judge.judge(item.source)
            rows.append(
                {
                    "operator": spec.name,
                    "candidate": item.name,
                    "outcome": judgement.outcome.value,
                    "expected": None if item.expected is None else sorted(item.expected),
                    "as_expected": item.expected is None or judgement.outcome in item.expected,
                    "reason": judgement.reason.replace(f"{ROOT}/", ""),
                    "line": judgement.line,
                    "seconds": round(time.perf_counter() - started, 3),
                    "stages_s": {stage: round(spent, 3) for stage, spent in judgement.stages_s.items()},
                }
            )
            print(rows[-1]["candidate"], rows[-1]["outcome"], rows[-1]["as_expected"], rows[-1]["seconds"])
    return rows


def host_rogues() -> Iterator[ExpectedVerdict]:
    """Candidates whose host code is broken or hostile; they compute, or pretend to, the tests' operator `scale`."""
    for path in sorted((ROGUES / "host").glob("*.py")):
        outcome = EXPECTED[path.stem][0]
        expected = None if outcome is Outcome.CORRECT else frozenset({outcome})
        yield ExpectedVerdict(f"host/{path.stem}", path.read_text(), expected)


async def main() -> None:
    """Judge everything and write `results/judgements.json`."""
    rows = []
    for name, spec in load_catalogue().items():
        rogues = [rogue for rogue in load_rogues().values() if rogue.operator == name]
        seed = ExpectedVerdict(f"{name} seed", spec.seeds[0], frozenset({Outcome.CORRECT}))
        rows += await judge_all(
            spec, [seed, *(ExpectedVerdict(f"device/{r.name}", r.source, r.on_model) for r in rogues)]
        )
    scale = operator(seeds=[candidate()], ranges={"M": [1, 64], "N": [1, 128]})
    rows += await judge_all(scale, host_rogues())
    outcomes = sorted({row["outcome"] for row in rows})
    print(write("judgements", rows, outcomes=outcomes, as_expected=sum(row["as_expected"] for row in rows)))


if __name__ == "__main__":
    asyncio.run(main())
