"""Language models behind one interface. To add one, write a file with a `Backend` and a line in the table below."""

from service.llm.anthropic import Anthropic
from service.llm.base import (
    Backend,
    BackendError,
    BudgetExhausted,
    Completion,
    LlmAnswer,
    LlmClient,
    LlmPrompt,
    LlmRefused,
    PermanentFailure,
    Purpose,
    SamePromptOpen,
    TransientFailure,
    digest,
)
from service.llm.command import Command
from service.llm.manual import Manual
from service.llm.openai import Openai
from service.llm.replay import Replay
from service.llm.responses import Responses

BACKENDS: dict[str, type[Backend]] = {
    Openai.kind: Openai,
    Responses.kind: Responses,
    Anthropic.kind: Anthropic,
    Manual.kind: Manual,
    Replay.kind: Replay,
    Command.kind: Command,
}
"""All kinds of backend, by their name in `backends.toml`."""

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendError",
    "BudgetExhausted",
    "Completion",
    "LlmAnswer",
    "LlmClient",
    "LlmPrompt",
    "LlmRefused",
    "PermanentFailure",
    "Purpose",
    "SamePromptOpen",
    "TransientFailure",
    "digest",
]
