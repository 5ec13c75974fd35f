"""Backend `replay`: recorded answers, word for word. It needs no network, key or model."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Self

from pydantic import TypeAdapter, ValidationError

from service.llm.base import Backend, Completion, LlmPrompt, LlmRefused, PermanentFailure, digest
from service.llm.options import BackendContext, BackendOptions

_COMPLETION = TypeAdapter(Completion)


class ReplayOptions(BackendOptions):
    """Options; `path` is the recording, relative to the data folder."""

    path: Path


class Replay(Backend):
    """Recorded exchanges, one JSON object per line: `{"prompt": digest, "completion": {...}}`.

    If a prompt was recorded twice, the later answer counts.
    """

    kind: ClassVar[str] = "replay"
    options: ClassVar[type[BackendOptions]] = ReplayOptions

    def __init__(self, path: Path) -> None:
        """Use the recording at `path`, which need not exist yet."""
        self._path = path

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend for the recording in its options."""
        assert isinstance(options, ReplayOptions)
        return cls(surroundings.folder / options.path)

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Answer a recorded prompt.

        Raises:
            PermanentFailure: If the recording cannot be read.
            LlmRefused: If the prompt was not recorded.
        """
        name = digest(prompt)
        found = (await asyncio.to_thread(self._read)).get(name)
        if found is None:
            raise LlmRefused(f"{self._path} has no answer to prompt {name}; record one first")
        return found

    async def record(self, prompt: LlmPrompt, completion: Completion) -> None:
        """Append an exchange to the recording."""
        line = json.dumps({"prompt": digest(prompt), "completion": asdict(completion)})
        await asyncio.to_thread(self._append, line + "\n")

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="ascii") as recording:
            recording.write(line)

    def _read(self) -> dict[str, Completion]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            exchanges = [json.loads(line) for line in lines]
            return {item["prompt"]: _COMPLETION.validate_python(item["completion"]) for item in exchanges}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, LookupError, TypeError, ValidationError) as error:
            raise PermanentFailure(f"{self._path} is not a valid recording: {error}") from error
