"""Play episodes of a scripted policy through an OpenEnv server, several at once; prints one JSON line per step.

    REEF_SEARCH=ID uvicorn --factory kernelreef.openenv:app --port 8000
    python examples/training/episodes.py http://127.0.0.1:8000 --episodes 8

A trainer does the same with a model's answers in place of `answer`.
"""

import argparse
import asyncio
import json
import re

from openenv import GenericEnvClient

WARPS = (1, 2, 4, 8, 16)
"""The policy tries another number of warps in each turn, and nothing else."""


def answer(task: str, number: int) -> str:
    seed = re.findall(r"```python\n(.*?)```", task, re.DOTALL)[-1]
    warps = WARPS[number % len(WARPS)]
    return f"With {warps} warps:\n```python\n{re.sub(r'num_warps=[0-9]+', f'num_warps={warps}', seed)}```"


async def play(url: str, number: int) -> None:
    async with GenericEnvClient(base_url=url, message_timeout_s=1200.0) as client:
        result = await client.reset()
        task, turn = result.observation["text"], 0
        while not result.done:
            action = {"source": answer(task, number + turn), "note": "another number of warps"}
            result = await client.step(action)
            turn += 1
            seen = {name: result.observation[name] for name in ("candidate", "outcome", "reason", "gain", "equal")}
            print(json.dumps({"episode": number, "turn": turn, "reward": result.reward, "done": result.done, **seen}))


async def play_all(url: str, episodes: int) -> None:
    await asyncio.gather(*(play(url, number) for number in range(episodes)))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("url")
    options.add_argument("--episodes", type=int, default=8)
    chosen = options.parse_args()
    asyncio.run(play_all(chosen.url, chosen.episodes))
