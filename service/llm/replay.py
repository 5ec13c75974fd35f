"""The backend `replay`: answers that were recorded once, word for word. Needs no network, no key and no model."""

import asyncio
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from pydantic import TypeAdapter, ValidationError

from service.llm.base import Backend, Completion, PermanentFailure, Prompt

_COMPLETION = TypeAdapter(Completion)


def digest(prompt: Prompt) -> str:
    """SHA-256 of everything that a prompt says."""
    return hashlib.sha256(json.dumps(asdict(prompt), sort_keys=True).encode()).hexdigest()


class Replay(Backend):
    """Recorded exchanges, one JSON object a line: `{"prompt": digest, "completion": {...}}`.

    Of two recordings of one prompt the later counts.
    """

    kind: ClassVar[str] = "replay"

    def __init__(self, path: Path) -> None:
        """Read from and record to the file at `path`, which need not exist yet."""
        self._path = path

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer a recorded prompt.

        Raises:
            PermanentFailure: If the prompt was not recorded, or the recording cannot be read.
        """
        key = digest(prompt)
        found = (await asyncio.to_thread(self._read)).get(key)
        if found is None:
            raise PermanentFailure(f"{self._path} holds no answer to prompt {key}; record one first")
        return found

    async def record(self, prompt: Prompt, completion: Completion) -> None:
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
            raise PermanentFailure(f"{self._path} is no recording: {error}") from error
