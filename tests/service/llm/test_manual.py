"""What only the backend that waits for somebody has."""

from pathlib import Path

import pytest

from service.llm import Completion, LlmPrompt, Manual, PermanentFailure
from service.llm.options import BackendContext


async def test_the_exchange_is_waited_for_by_its_key() -> None:
    async def answered(key: str) -> Completion:
        return Completion(f"answer to {key}", "a person", 0, 0, None)

    backend = Manual(BackendContext(Path(), wait_for=answered))
    assert (await backend.complete(LlmPrompt("", "?"), "exchange-7")).text == "answer to exchange-7"
    assert Manual.waits


async def test_without_anybody_who_keeps_prompts_there_is_no_answer() -> None:
    with pytest.raises(PermanentFailure, match="coordinator"):
        await Manual(BackendContext(Path())).complete(LlmPrompt("", "?"))
