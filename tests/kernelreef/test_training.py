"""Episodes against a real service with a worker that judges on `model:sm_90`, by a token of one search."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from math import log
from pathlib import Path

import pytest
import pytest_asyncio

from kernelreef import AsyncReef
from kernelreef.errors import Conflict, Forbidden, InvalidInput
from kernelreef.in_process import InProcessTransport
from kernelreef.training import REFUSED, REFUSED_REWARD, Training, kernel_of
from service.analysis.trajectories import UNUSABLE, WRONG
from service.app import create_app, running
from service.embedded import EmbeddedServer
from service.operators.catalogue import load_catalogue
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.authentication import issue
from service.security.scopes import Scope, SearchGrant
from service.settings import Settings
from tests.journeys.small import small_request
from workers.protocol import MAX_SOURCE_BYTES

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SEED = load_catalogue()["softmax"].seeds[0]
"""Eight warps for rows of 64: fewer are faster."""
FASTER = SEED.replace("num_warps=8", "num_warps=1")
WRONG_KERNEL = SEED.replace("tl.sum(numerator, axis=0)", "tl.max(numerator, axis=0)")
OPERATOR = {**small_request(), "seeds": [SEED]}
BROKEN = SEED.replace("tl.arange(0, BLOCK)", "tl.arange(BLOCK)")


@dataclass(frozen=True)
class Gym:
    """A service with a worker."""

    connect: InProcessTransport
    owner: AsyncReef
    issue_token: object

    async def search(self, evaluations: int) -> str:
        found = await self.owner.submit(OPERATOR, devices=["model:sm_90"], emitters=["agent"], evaluations=evaluations)
        return found.id

    async def training(self, search: str, turns: int = 6, *scopes: Scope) -> Training:
        token = await self.issue_token(search, scopes or (Scope.READ, Scope.PROPOSE))  # type: ignore[operator]
        return Training("http://127.0.0.1", token, search=search, turns=turns, transport=self.connect)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gym(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gym]:
    folder: Path = tmp_path_factory.mktemp("gym")
    async with EmbeddedServer(folder / "redis") as server:
        settings = Settings(data_dir=folder, redis_url=server.url, local_workers=1)
        app = create_app(settings, AccessPolicy(LoginPolicy.ONCE_THERE_ARE_TOKENS))
        async with running(app, settings, devices=["model:sm_90"]):
            coordinator = app.state.coordinator

            async def token(search: str | None, scopes: tuple[Scope, ...]) -> str:
                grant = SearchGrant(search) if search else None
                return (await issue(coordinator.store, "policy", scopes, grant=grant))[1]

            transport = InProcessTransport(app)
            own = await token(None, (Scope.READ, Scope.SUBMIT, Scope.STEER))
            async with AsyncReef("http://127.0.0.1", own, transport=transport, attempts=1) as owner:
                yield Gym(transport, owner, token)


async def test_every_kind_of_step_earns_what_is_documented(gym: Gym) -> None:
    search = await gym.search(8)
    async with await gym.training(search) as training:
        episode = training.episode()
        with pytest.raises(Conflict, match="call reset"):
            await episode.step(FASTER)
        start = await episode.reset()
        assert SEED in start.text and '"N": 64' in start.text and "Evaluations left in the search: 7" in start.text
        assert (start.reward, start.done, start.number) == (None, False, 0)
        wrong = await episode.step(f"I leave out the sum.\n```python\n{WRONG_KERNEL}```\n", "maximum for the sum")
        assert (wrong.outcome, wrong.reward) == ("wrong_result", WRONG) and wrong.reason in wrong.text
        broken = await episode.step(BROKEN)
        assert (broken.outcome, broken.reward) == ("compile_error", UNUSABLE)
        assert broken.line is not None and BROKEN.splitlines()[broken.line - 1].strip() in broken.text
        better = await episode.step(FASTER)
        assert better.outcome == "correct" and better.provenance == "predicted"
        assert better.gain is not None and better.gain.low > 1 and better.reward == pytest.approx(log(better.gain.low))
        again = await episode.step(FASTER)
        assert (again.equal, again.reward, again.candidate) == (True, 0.0, better.candidate)
        worse = await episode.step(SEED)
        assert worse.reward == pytest.approx(max(-0.25, -log(better.gain.low))) and not worse.done
        long = await episode.step("#" * (MAX_SOURCE_BYTES + 1))
        assert (long.outcome, long.reward, long.done, long.truncated) == (REFUSED, REFUSED_REWARD, True, False)
        assert REFUSED_REWARD == UNUSABLE
        with pytest.raises(Conflict, match="is over"):
            await episode.step(FASTER)
        other = training.episode()
        await other.reset()
        first = await other.step(FASTER)
        assert first.equal and first.reward == better.reward, "an earlier episode takes nothing from a later one"
    steps = [json.loads(line) for line in (await lines(gym, search)) if json.loads(line)["step"] > 0]
    assert {step["candidate"]: step["reward"] for step in steps} == {
        turn.candidate: turn.reward for turn in (wrong, broken, better)
    }


async def lines(gym: Gym, search: str) -> list[str]:
    _, content = await gym.owner.wire.file(f"/searches/{search}/trajectories", rewards=True)
    return content.decode().splitlines()


async def test_many_episodes_at_once_stay_within_the_evaluations(gym: Gym) -> None:
    search = await gym.search(7)
    async with await gym.training(search, turns=2) as training:

        async def run(number: int) -> list[object]:
            episode = training.episode()
            turn, rewards = await episode.reset(), []
            while not turn.done:
                turn = await episode.step(f"{BROKEN}EPISODE = {number}, {turn.number}\n")
                rewards.append(turn.reward)
            return [turn.truncated, *rewards]

        ended = await asyncio.gather(*(run(number) for number in range(12)))
        progress = await gym.owner.progress(search)
        assert progress.candidates == 7, "the seed, and six steps"
        rewards = [reward for _, *each in ended for reward in each]
        assert sorted(map(str, rewards)) == sorted([str(UNUSABLE)] * 6 + ["None"] * (len(rewards) - 6))
        assert all(truncated == (each[-1] is None) for truncated, *each in ended)
        with pytest.raises(Conflict):
            await training.episode().reset()


async def test_a_check_predicts_what_an_evaluation_then_says_and_uses_none(gym: Gym) -> None:
    search = await gym.search(3)
    async with await gym.training(search, turns=1) as training:
        episode = training.episode()
        await episode.reset()
        checked, wrong = [await training.reef.check_kernel(search, each) for each in (FASTER, WRONG_KERNEL)]
        assert (await gym.owner.progress(search)).candidates == 1, "the seed"
        (told,) = checked.predicted
        assert told.memory_floor_us is not None and told.predicted_us is not None
        assert told.predicted_us >= told.memory_floor_us and not told.reason
        assert wrong.predicted[0].predicted_us, "it says nothing about right or wrong"
        turn = await episode.step(FASTER)
        judged = await gym.owner.candidate(str(turn.candidate))
    (shape,) = judged.reports[0]["shapes"]
    assert (shape["shape"], shape["mid_us"]) == (told.shape, told.predicted_us)


async def test_a_token_must_be_for_this_search_and_may_propose(gym: Gym) -> None:
    search, other = await gym.search(2), await gym.search(2)
    async with await gym.training(search, 1, Scope.READ) as training:
        episode = training.episode()
        await episode.reset()
        with pytest.raises(Forbidden, match="propose"):
            await episode.step(FASTER)
    foreign = await gym.training(search)
    foreign.search = other
    with pytest.raises(Forbidden, match="only"):
        await foreign.open()


async def test_a_search_that_takes_no_kernels_is_refused(gym: Gym) -> None:
    found = await gym.owner.submit(OPERATOR, devices=["model:sm_90"], emitters=["tune"], evaluations=1)
    training = await gym.training(found.id)
    with pytest.raises(Conflict, match="emitter 'agent'"):
        await training.open()
    with pytest.raises(InvalidInput, match="at least one turn"):
        await gym.training(found.id, 0)


@pytest.mark.parametrize(
    "answer, kernel",
    [
        ("import torch\n", "import torch\n"),
        ("Plan.\n```python\nold\n```\nBetter:\n```python\nnew\n```\n", "new\n"),
        ("````\n```inner```\nx = 1\n````", "```inner```\nx = 1\n"),
        ("~~~py\na\n~~~", "a\n"),
        ("```python\nnever closed\n", "```python\nnever closed\n"),
        ("", ""),
    ],
)
async def test_the_kernel_of_an_answer(answer: str, kernel: str) -> None:
    assert kernel_of(answer) == kernel
