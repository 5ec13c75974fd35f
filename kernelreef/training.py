"""Episodes for reinforcement learning: `reset` and `step` over the REST interface of a running search.

    async with Training(search=ID, turns=4) as training:
        episode = training.episode()
        turn = await episode.reset()
        while not turn.done:
            turn = await episode.step(await policy(turn.text))

Many episodes share one search: its judge, its workers and its evaluations. A step is one candidate of the emitter
`agent`; the caller's token needs the scopes `read` and `propose`. `docs/how-to/train-a-model.md` shows more.
"""

import asyncio
import contextlib
import json
import re
import time
from types import TracebackType
from typing import Self, Unpack

from pydantic import BaseModel, ConfigDict

from kernelreef import models
from kernelreef.asynchronous import AsyncReef, Connection
from kernelreef.errors import Conflict, InvalidInput, RateLimited, ServiceError, Unavailable
from kernelreef.models import Document, Provenance, Speedup
from kernelreef.states import CandidateState, SearchState
from kernelreef.streams import RESET
from kernelreef.transport import at

TURNS = 4
"""Number of turns of an episode. Our choice: a first kernel and three improvements or repairs."""
STEP_S = 900.0
"""Maximum seconds of a step, all waiting included: 64 episodes wait for one slow worker."""
AT_ONCE = 4
"""Maximum number of submissions of one connection that wait for a free slot of the search; the others wait here, in
their order. The service lets each wait 20 s and then drops its place, so among many there the order would be chance."""
AGAIN_S = 1.0
"""Seconds before a submission that the service could not take is sent again."""
LOOK_S = 10.0
"""Seconds between two looks for a verdict if no event tells of it."""
REFUSED, REFUSED_REWARD = "refused", -1.0
"""Outcome and reward of a text that the service does not take as a kernel, such as one that is too long: the reward of
every kernel that never ran."""
RULES = """\
Write one Python file that defines the entry function with the arguments of the reference, and answer with that file in
one fenced block. The entry allocates its results and launches Triton kernels of its own; all work on elements happens
in kernels. Host code runs once per shape on tensors without data: it may use shapes, strides and dtypes, and reads no
values. The kernel must be right at every size in the ranges and give the same bits at each run. A correct kernel earns
the logarithm of its speedup over the best so far of this episode, a wrong one -0.5, one that does not compile -1."""
"""Rules of a kernel, for the policy."""

_FENCE = re.compile(r"^(```+|~~~+)[^\n`]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


class Turn(BaseModel):
    """Result of `reset` or of one step.

    Attributes:
        text: The task or the verdict in words, for the policy.
        reward: Reward of the step, -1 to 1; None without a verdict on the kernel, which is no reason to learn.
        done: True if the episode is over.
        truncated: True if it ended because the search takes no more kernels, not because its turns are used.
        number: Number of turns taken, from 0 after `reset`.
        candidate: Id of the step's candidate; None if the service took none.
        outcome: Outcome, such as `correct`; None after `reset` and without a verdict.
        reason: Reason of a failure.
        line: Line of the source that it concerns.
        gain: Time of the best so far divided by this kernel's, with its bounds; None unless both are correct.
        provenance: Origin of the times: `predicted`, `measured` or `recorded`.
        equal: True if the search had a verdict on the same source already, so that no evaluation was used.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    reward: float | None = None
    done: bool = False
    truncated: bool = False
    number: int = 0
    candidate: str | None = None
    outcome: str | None = None
    reason: str = ""
    line: int | None = None
    gain: Speedup | None = None
    provenance: Provenance | None = None
    equal: bool = False


class Training:
    """Connection to one search, for any number of episodes at once. Use it as an async context manager."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        search: str,
        turns: int = TURNS,
        step_s: float = STEP_S,
        **connection: Unpack[Connection],
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Address of the service; `REEF_URL`, or this machine's, if not given.
            token: API token with the scopes `read` and `propose`; `REEF_TOKEN` if not given.
            search: Id of a search with the emitter `agent`.
            turns: Number of turns of an episode.
            step_s: Maximum seconds of a step.
            connection: Connection options.

        Raises:
            InvalidInput: If an episode would have no turn.
        """
        if turns < 1:
            raise InvalidInput("an episode has at least one turn", "turns")
        self.reef = AsyncReef(url, token, **connection)
        self.search = search
        self.turns = turns
        self.step_s = step_s
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting: dict[str, asyncio.Event] = {}
        self._watch: asyncio.Task[None] | None = None
        self._task = ""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Read the task, and follow the search; a connection that fails is closed.

        Raises:
            Conflict: If the search takes no kernels.
            ServiceError: If the service refuses, fails or does not answer.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.close)
            search = await self._startable()
            self.search = search.id
            self._task = task_text(search, await self.reef.operator(search.operator_digest))
            self._watch = asyncio.create_task(self._follow())
            stack.pop_all()

    async def close(self) -> None:
        """End the connection; open steps fail."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self.reef.close()

    def episode(self) -> "Episode":
        """Return a new episode; `reset` starts it."""
        return Episode(self)

    async def task(self) -> str:
        """Return the text of the task, with the evaluations that are left.

        Raises:
            Conflict: If the search takes no more kernels.
        """
        search = await self._startable()
        progress = await self.reef.progress(search.id)
        left = max(0, progress.evaluations - progress.candidates)
        return f"{self._task}\n\nTurns of this episode: {self.turns}. Evaluations left in the search: {left}."

    async def submit(self, source: str, note: str, parents: list[str], until: float) -> models.CandidateSummary:
        """Submit a kernel, again and again while the service has no slot for it.

        Args:
            source: Text of the kernel file.
            note: Line on what was changed and why.
            parents: Ids of candidates that it was made from.
            until: Time of `time.monotonic` after which a refusal is raised.

        Raises:
            ServiceError: If the service refuses it, or has no slot until then.
        """
        async with self._places:
            while True:
                try:
                    return await self.reef.submit_kernel(self.search, source, note=note, parents=parents)
                except (RateLimited, Unavailable):
                    if time.monotonic() > until:
                        raise
                await asyncio.sleep(AGAIN_S)

    async def verdict(self, candidate: str, until: float) -> models.Candidate:
        """Wait for a candidate's verdict.

        Raises:
            Unavailable: If there is none until then.
        """
        event = self._waiting.setdefault(candidate, asyncio.Event())
        try:
            while True:
                event.clear()
                found = await self.reef.candidate(candidate)
                if found.state is CandidateState.JUDGED:
                    return found
                if time.monotonic() > until:
                    raise Unavailable(f"candidate {candidate} has no verdict after {self.step_s:g} s")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), LOOK_S)
        finally:
            self._waiting.pop(candidate, None)

    async def reward(self, candidate: str, over: str | None) -> models.Reward:
        """Return the reward of a step from the candidate `over`, or the first seed, to another one."""
        return await self.reef.wire.read(models.Reward, at("/candidates/{}/reward", candidate), over=over)

    async def _startable(self) -> models.Search:
        """Return the search as soon as it takes kernels.

        Raises:
            Conflict: If it never will.
            Unavailable: If it is still being prepared after the time of a step.
        """
        until = time.monotonic() + self.step_s
        while True:
            search = await self.reef.search(self.search)
            if "agent" not in search.emitters:
                raise Conflict("this search takes no kernels: start one with the emitter 'agent'")
            if search.state is SearchState.RUNNING:
                return search
            if search.state is not SearchState.PREPARING:
                raise Conflict(f"the search is {search.state.value}; only a running one takes kernels")
            if time.monotonic() > until:
                raise Unavailable("the search is still being prepared: are there workers for its devices?")
            await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        """Wake the steps whose candidates are judged. Without events, each looks for its own verdict."""
        with contextlib.suppress(ServiceError):
            async for event in self.reef.events(self.search):
                told = event.data.get("candidate")
                for candidate, waiting in self._waiting.items():
                    if told == candidate or event.kind in RESET:
                        waiting.set()


class Episode:
    """One episode: a task, then turns. Each step is rewarded relative to the best kernel of the episode so far.

    The first one is relative to the search's first seed. So rewards of improvements add up to the logarithm of what the
    episode gained, and repeating a kernel earns nothing.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._best: str | None = None
        self._turn = 0
        self._over = True

    async def reset(self) -> Turn:
        """Start a new episode, and return its task.

        Raises:
            Conflict: If the search takes no more kernels.
            ServiceError: If the service fails or does not answer.
        """
        self._best, self._turn, self._over = None, 0, False
        return Turn(text=await self._training.task())

    async def step(self, answer: str, note: str = "") -> Turn:
        """Have a kernel judged, and return its reward.

        Args:
            answer: The policy's answer: the text of a kernel file, or a text with that file in its last fenced block.
            note: Line on what was changed and why.

        Raises:
            Conflict: If the episode is over.
            Unavailable: If there is no verdict in time.
            ServiceError: If the service fails or does not answer.
        """
        if self._over:
            raise Conflict("the episode is over, or was not started: call reset")
        until = time.monotonic() + self._training.step_s
        parents = [self._best] if self._best else []
        try:
            kept = await self._training.submit(kernel_of(answer), note, parents, until)
        except InvalidInput as refused:
            self._advance()
            return self._result(reward=REFUSED_REWARD, outcome=REFUSED, reason=refused.detail)
        except Conflict as ended:
            self._over = True
            return Turn(text=ended.detail, reason=ended.detail, done=True, truncated=True, number=self._turn)
        found = await self._training.verdict(kept.id, until)
        earned = await self._training.reward(kept.id, self._best)
        self._advance()
        if earned.gain is not None and earned.gain.low > 1.0:
            self._best = kept.id
        return self._result(
            reward=earned.reward,
            candidate=kept.id,
            outcome=earned.outcome,
            reason=found.reason,
            line=found.line,
            gain=earned.gain,
            provenance=earned.provenance,
            equal=kept.state is CandidateState.JUDGED,
            told=verdict_text(found, earned),
        )

    def _advance(self) -> None:
        self._turn += 1
        self._over = self._turn >= self._training.turns

    def _result(self, *, told: str = "", **found: object) -> Turn:
        left = self._training.turns - self._turn
        said = told or f"The service refused this text: {found.get('reason')}."
        text = f"{said}\nTurns left: {left}."
        return Turn.model_validate({**found, "text": text, "done": self._over, "number": self._turn})


def kernel_of(answer: str) -> str:
    """Return the kernel file of an answer: its last fenced block, or all of it if it has none."""
    blocks = _FENCE.findall(answer)
    return str(blocks[-1][1]) if blocks else answer


def task_text(search: models.Search, operator: Document) -> str:
    """Describe the task of a search to a policy.

    Args:
        search: The search.
        operator: Its operator in full.
    """
    told = {name: value for name, value in operator.items() if name not in ("reference", "seeds") and value}
    seeds = operator.get("seeds")
    seed = str(seeds[search.reference_seed]) if isinstance(seeds, list) and seeds else ""
    shapes = [shape.get("dims") for shape in search.shapes if shape.get("role") == "benchmark"]
    return "\n\n".join(
        [
            f"Make the operator {operator.get('name')} faster on {search.devices[0]}. Times count at these sizes: "
            f"{json.dumps(shapes)}.",
            RULES,
            f"The operator:\n{json.dumps(told)}",
            f"Its reference:\n```python\n{operator.get('reference')}\n```",
            f"The kernel to beat:\n```python\n{seed}\n```",
        ]
    )


def verdict_text(candidate: models.Candidate, earned: models.Reward) -> str:
    """Describe a verdict to a policy: the outcome, and the gain or the reason."""
    if earned.gain is not None:
        origin = "the best kernel of this episode" if earned.over else "the kernel to beat"
        gain, pace = earned.gain, "faster" if earned.gain.low > 1.0 else "not certainly faster"
        said = (
            f"Correct, and {pace} than {origin}: {gain.mid:.3f} times its speed "
            f"({gain.low:.3f} to {gain.high:.3f}, {earned.provenance})."
        )
    else:
        said = f"{earned.outcome}: {candidate.reason}" if candidate.reason else f"{earned.outcome}."
        lines = candidate.source.splitlines()
        if candidate.line is not None and candidate.line <= len(lines):
            said += f"\nLine {candidate.line}: {lines[candidate.line - 1].strip()}"
    return said if earned.reward is None else f"{said}\nReward: {earned.reward:.3f}."
