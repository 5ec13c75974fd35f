"""Episodes for reinforcement learning, many at once against one executor: steps a minute, and the seconds of a step.

    python -m benchmarks.training                                    # 64 episodes, 3 turns, model:sm_90, one worker
    python -m benchmarks.training --device h100 --out results        # on a host with a card

It starts `reef serve` in an empty data folder, and a search that takes kernels. All episodes start at the same moment,
the worst case for the last of them. The policy is a script. It starts from one of the operator's seeds and edits the
best kernel of its episode by single steps, as `tune` and `rewrite` do. One answer in eight does not compile.
"""

import argparse
import asyncio
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks import record
from benchmarks.cluster import RestartableProcess, free_port
from kernelreef import AsyncReef
from kernelreef.errors import ServiceError
from kernelreef.training import Training, Turn
from service.emitters import EMITTERS
from service.emitters.base import Parent, Proposal, ProposalContext
from service.emitters.tune import read, write
from service.fleet.devices import read_device
from service.settings import usable_workers

EVERY = 8
"""One answer in so many does not compile."""
REWRITTEN = 0.3
"""Share of the other answers that a rewriting rule changes besides one or two numbers."""
STEP_S = 7200.0
START_S = 120.0
SAY_S = 15.0
"""Seconds between two lines on the progress."""
REEF = (sys.executable, "-m", "kernelreef")


class ScriptedPolicy:
    """Policy that edits the best kernel of its episode.

    Attributes:
        best: Text of that kernel.
    """

    def __init__(self, operator: dict[str, Any], target: str, rng: random.Random) -> None:
        self.best = ""
        self._operator = operator
        self._target = target
        self._rng = rng
        self._last = ""

    async def answer(self, turn: Turn) -> str:
        """Answer a turn with a kernel file in a fenced block."""
        if turn.number == 0:
            self.best = self._rng.choice(self._operator["seeds"])
        elif turn.gain is not None and turn.gain.low > 1.0:
            self.best = self._last
        self._last = await self._edit()
        return f"An edit of the best so far.\n```python\n{self._last}\n```\n"

    async def _edit(self) -> str:
        if self._rng.randrange(EVERY) == 0:
            return self.best.replace("tl.load(", "tl.lode(", 1) + f"DRAW = {self._rng.random()}\n"
        found = read(self.best, self._target)
        chosen = self._rng.sample(found, min(len(found), self._rng.choice((1, 2))))
        values = {each.name: self._rng.choice(each.neighbours) for each in chosen if each.neighbours}
        text = write(self.best, self._target, values) if values else self.best
        if self._rng.random() < REWRITTEN:
            context = ProposalContext(self._operator, self._target, (Parent("", text),), (), self._rng)
            rewritten = await EMITTERS["rewrite"].propose(context)
            text = rewritten.source if isinstance(rewritten, Proposal) else text
        return text


async def play(training: Training, policy: ScriptedPolicy, steps: list[tuple[float, Turn]]) -> None:
    """Play one episode, and add the seconds and the result of each step to a list."""
    episode = training.episode()
    turn = await episode.reset()
    while not turn.done:
        answer = await policy.answer(turn)
        begun = time.monotonic()
        turn = await episode.step(answer, "an edit by a script")
        steps.append((time.monotonic() - begun, turn))


async def measured(url: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Run all episodes, and return the figures."""
    async with AsyncReef(url) as reef:
        steps = chosen.episodes * chosen.turns
        search = await reef.submit(
            chosen.operator, devices=[chosen.device], emitters=["agent"], evaluations=steps + 64, name="episodes"
        )
        operator = await reef.operator(search.operator_digest)
        target = read_device(chosen.device, "device").target
        async with Training(url, search=search.id, turns=chosen.turns, step_s=STEP_S) as training:
            policies = [
                ScriptedPolicy(operator, target, random.Random(chosen.seed + n)) for n in range(chosen.episodes)
            ]
            played: list[list[tuple[float, Turn]]] = [[] for _ in policies]
            begun = time.monotonic()
            episodes = [asyncio.create_task(play(training, *each)) for each in zip(policies, played, strict=True)]
            unfinished = await _until_done(episodes, played, begun, chosen.limit_s)
            wall_s = time.monotonic() - begun
        progress = await reef.progress(search.id)
        spent = await _worker_seconds(reef, search.id)
        await reef.stop(search.id)
    return figures(played, wall_s) | {
        "unfinished_episodes": unfinished,
        "evaluations_used": progress.candidates,
        "equal_plans": progress.equal_plans,
        "worker_seconds": spent,
        "provenance": progress.devices[0].provenance,
    }


async def _until_done(
    episodes: Sequence[asyncio.Task[None]], played: Sequence[Sequence[object]], begun: float, limit_s: float
) -> int:
    """Wait until all episodes are done, or cancel those that are not in time.

    Returns:
        The number of those, and of those that the service failed.
    """
    left, failed = set[asyncio.Task[None]](episodes), 0
    while left and (left_s := begun + limit_s - time.monotonic()) > 0:
        done, left = await asyncio.wait(left, timeout=min(SAY_S, left_s))
        for each in done:
            try:
                each.result()
            except ServiceError as error:
                print(f"an episode failed: {error}", flush=True)
                failed += 1
        print(f"{time.monotonic() - begun:.0f} s: {sum(map(len, played))} steps, {len(left)} episodes run", flush=True)
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return len(left) + failed


def figures(played: list[list[tuple[float, Turn]]], wall_s: float) -> dict[str, Any]:
    """Return the figures of episodes.

    Args:
        played: Seconds and result of each step, by episode.
        wall_s: Seconds from the first reset to the last step.
    """
    every = [step for episode in played for step in episode]
    seconds = sorted(step_s for step_s, _ in every)
    if len(every) < 2:
        raise SystemExit(f"{len(every)} steps in {wall_s:.0f} s are too few for a figure")
    ranks = statistics.quantiles(seconds, n=100, method="inclusive")
    rewards = [turn.reward for _, turn in every if turn.reward is not None]
    return {
        "steps": len(every),
        "wall_s": round(wall_s, 1),
        "steps_per_minute": round(60 * len(every) / wall_s, 1),
        "step_p50_s": round(ranks[49], 2),
        "step_p99_s": round(ranks[98], 2),
        "step_max_s": round(seconds[-1], 2),
        "outcomes": dict(Counter(turn.outcome or "none" for _, turn in every).most_common()),
        "equal_sources": sum(turn.equal for _, turn in every),
        "improved": sum(turn.gain is not None and turn.gain.low > 1.0 for _, turn in every),
        "truncated": sum(turn.truncated for _, turn in every),
        "reward_mean": round(statistics.fmean(rewards), 3) if rewards else None,
    }


async def _worker_seconds(reef: AsyncReef, search: str) -> dict[str, float]:
    """Return the seconds that workers spent on a search's candidates, by stage."""
    spent: Counter[str] = Counter()
    async for each in reef.candidates(search):
        found = await reef.candidate(each.id)
        spent.update(found.stages_s)
        for report in found.reports:
            stages = report.get("stages_s")
            spent.update(stages if isinstance(stages, dict) else {})
    return {name: round(value, 1) for name, value in spent.most_common()}


def main() -> None:
    """Start a service, measure, and write `training.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="model:sm_90")
    options.add_argument("--operator", default="softmax")
    options.add_argument("--episodes", type=int, default=64)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--workers", type=int, help="local workers; 1 for a model, one per core beside a card")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--limit-s", type=float, default=STEP_S, help="seconds after which episodes are cancelled")
    options.add_argument("--out", type=Path, default=record.RESULTS, help="a folder")
    chosen = options.parse_args()
    end_at_sigterm()
    workers = chosen.workers or (1 if chosen.device.startswith("model:") else None)
    with tempfile.TemporaryDirectory() as folder:
        port = free_port("127.0.0.1")
        environment = {"REEF_DATA_DIR": folder, "REEF_LOG_LEVEL": "warning", "REEF_BENCHES_PER_CARD": "1"}
        environment |= {} if workers is None else {"REEF_LOCAL_WORKERS": str(workers)}
        service = RestartableProcess([*REEF, "serve", "--port", str(port)], Path(folder) / "log", environment)
        service.start()
        try:
            url = f"http://127.0.0.1:{port}"
            await_ready(url)
            row = asyncio.run(measured(url, chosen))
        finally:
            service.kill()
    named = ("device", "operator", "episodes", "turns")
    row = {name: getattr(chosen, name) for name in named} | {"workers": workers or usable_workers(), **row}
    print(record.write("training", [row], chosen.out), row)


def end_at_sigterm() -> None:
    """Exit at SIGTERM as at an error, so that a service that was started ends too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


def await_ready(url: str) -> None:
    """Wait until a service answers."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise SystemExit("the service did not become ready")


if __name__ == "__main__":
    main()
