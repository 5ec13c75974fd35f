"""Language models behind one interface. To add one: a file with a `Backend`, and a line in the table below."""

from service.llm.base import (
    Backend,
    BackendError,
    Completion,
    PermanentFailure,
    Prompt,
    Refused,
    TransientFailure,
)
from service.llm.replay import Replay

BACKENDS: dict[str, type[Backend]] = {Replay.kind: Replay}
"""Every kind of backend, by the name that `backends.toml` uses."""

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendError",
    "Completion",
    "PermanentFailure",
    "Prompt",
    "Refused",
    "TransientFailure",
]
