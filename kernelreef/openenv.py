"""Server of episodes for OpenEnv: `uvicorn --factory kernelreef.openenv:app --port 8000`.

It needs the extra `kernelreef[openenv]`, and these environment variables: `REEF_URL`, `REEF_TOKEN` and `REEF_SEARCH`;
`REEF_TURNS` and `REEF_EPISODES`, if the defaults are not wanted. Clients of OpenEnv get a session each. The kernel is
judged by the service, never here.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field, create_model

from kernelreef.training import TURNS, Episode, Training, Turn

EPISODES = 64
"""Maximum number of sessions at once."""
SOURCE = Field(description="The kernel file, or a text with that file in its last fenced block.")
NOTE = Field(default="", max_length=300, description="One line: what was changed, and why.")

# Where OpenEnv is not installed, its classes are unknown to mypy, so ours are made from them at run time.
KernelAction = create_model("KernelAction", __base__=Action, source=(str, SOURCE), note=(str, NOTE))
"""Answer of a policy. Only `source` is required, so a plain text can be sent as an action."""
_FIELDS: dict[str, Any] = {
    name: (field.annotation, field) for name, field in Turn.model_fields.items() if name not in ("reward", "done")
}
KernelObservation = create_model("KernelObservation", __base__=Observation, **_FIELDS)
"""Result of `reset` or `step`: the fields of `kernelreef.training.Turn`."""


class PolicyAnswer(Protocol):
    """Fields of `KernelAction`."""

    source: str
    note: str


class SharedTraining:
    """Connection that all sessions share; it opens with the first episode, on the server's event loop."""

    def __init__(self, search: str, turns: int) -> None:
        self._search = search
        self._turns = turns
        self._lock = asyncio.Lock()
        self._training: Training | None = None

    async def episode(self) -> Episode:
        """Return a new episode.

        Raises:
            ServiceError: If the search cannot be read, or takes no kernels.
        """
        async with self._lock:
            if self._training is None:
                training = Training(search=self._search, turns=self._turns)
                await training.open()
                self._training = training
        return self._training.episode()

    async def close(self) -> None:
        """Close the connection."""
        if self._training is not None:
            await self._training.close()


class EpisodeSession:
    """One session: episodes one after another. With OpenEnv's `Environment` it is the class that its server takes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, shared: SharedTraining) -> None:
        super().__init__()
        self._shared = shared
        self._episode: Episode | None = None
        self._state = State()

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: object) -> object:
        """Start an episode. Nothing here is random, so `seed` is ignored."""
        return _observation(await (await self._started(episode_id)).reset())

    async def step_async(self, action: PolicyAnswer, timeout_s: float | None = None, **kwargs: object) -> object:
        """Have a kernel judged. A first step without `reset` starts an episode."""
        episode = self._episode
        if episode is None:
            episode = await self._started(None)
            await episode.reset()
        turn = await asyncio.wait_for(episode.step(action.source, action.note), timeout_s)
        self._state.step_count = turn.number
        return _observation(turn)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: object) -> object:
        """Refuse: the server awaits `reset_async`.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("await reset_async, or connect a client of OpenEnv to the server")

    def step(self, action: object, timeout_s: float | None = None, **kwargs: object) -> object:
        """Refuse: the server awaits `step_async`.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("await step_async, or connect a client of OpenEnv to the server")

    @property
    def state(self) -> object:
        """Id of the episode, and number of its steps."""
        return self._state

    def get_metadata(self) -> object:
        """Return name and description."""
        return EnvironmentMetadata(
            name="kernelreef", description="Write GPU kernels; a strict judge of correctness and speed rewards them."
        )

    async def _started(self, id: str | None) -> Episode:
        self._state = State(episode_id=id)
        self._episode = self._episode or await self._shared.episode()
        return self._episode


def app() -> object:
    """Make the server's app from the environment variables.

    Raises:
        KeyError: If `REEF_SEARCH` is missing.
        ValueError: If a number is none.
    """
    shared = SharedTraining(os.environ["REEF_SEARCH"], int(os.environ.get("REEF_TURNS", TURNS)))
    episodes = int(os.environ.get("REEF_EPISODES", EPISODES))
    environment = type("KernelEnvironment", (EpisodeSession, Environment), {})
    made = create_fastapi_app(
        lambda: environment(shared), KernelAction, KernelObservation, max_concurrent_envs=episodes
    )
    inner = made.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[object]:
        async with inner(app) as state:
            yield state
            await shared.close()

    made.router.lifespan_context = lifespan
    return made


def _observation(turn: Turn) -> object:
    return KernelObservation(**turn.model_dump())
