"""What every backend of the table must do. Each is set up so that `PROMPT` has the answer `COMPLETION`."""

import asyncio
import inspect

import pytest

from service.llm import BACKENDS, Backend, BackendError, Completion, Prompt, Replay

PROMPT = Prompt(system="You write kernels.", user="Make it faster.\n\u00e9\ud800")
COMPLETION = Completion("```python\n\u00e9\n```", "model-1", 12, 34, None, truncated=True)


async def replay(folder):
    backend = Replay(folder / "recording.jsonl")
    await backend.record(PROMPT, COMPLETION)
    return backend


MAKERS = {"replay": replay}


@pytest.fixture(params=BACKENDS)
async def backend(request, tmp_path):
    return await MAKERS[request.param](tmp_path)


async def test_an_answer(backend):
    assert await backend.complete(PROMPT) == COMPLETION


async def test_answers_to_many_at_once(backend):
    assert await asyncio.gather(*(backend.complete(PROMPT) for _ in range(20))) == [COMPLETION] * 20


async def test_failures_are_of_the_three_kinds(backend):
    with pytest.raises(BackendError):
        await backend.complete(Prompt("", "something else"))


def test_the_table():
    assert MAKERS.keys() == BACKENDS.keys()
    for kind, backend in BACKENDS.items():
        assert issubclass(backend, Backend)
        assert backend.kind == kind
        assert inspect.iscoroutinefunction(backend.complete)
