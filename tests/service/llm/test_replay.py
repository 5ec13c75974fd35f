import pytest

from service.llm import Completion, LlmPrompt, LlmRefused, PermanentFailure, Replay, digest

PROMPT = LlmPrompt("system", "user", 100)
ANSWER = Completion("text", "model", 1, 2, 0.5)


@pytest.mark.parametrize(
    "other", [LlmPrompt("system2", "user", 100), LlmPrompt("system", "user ", 100), LlmPrompt("system", "user", 101)]
)
async def test_a_prompt_that_was_not_recorded_is_named_by_its_digest(tmp_path, other):
    backend = Replay(tmp_path / "recording.jsonl")
    await backend.record(PROMPT, ANSWER)
    with pytest.raises(LlmRefused, match=digest(other)):
        await backend.complete(other)


async def test_without_a_file_nothing_was_recorded(tmp_path):
    with pytest.raises(LlmRefused, match=digest(PROMPT)):
        await Replay(tmp_path / "none.jsonl").complete(PROMPT)


async def test_the_later_recording_counts_and_outlives_the_backend(tmp_path):
    path = tmp_path / "recording.jsonl"
    await Replay(path).record(PROMPT, Completion("old", "model", 1, 1, None))
    await Replay(path).record(PROMPT, ANSWER)
    assert await Replay(path).complete(PROMPT) == ANSWER
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "text", ["{", "[]\n", '{"prompt": "a"}\n', '{"prompt": "a", "completion": {"text": 1}}\n', "3\n", "null\n"]
)
async def test_a_file_that_is_no_recording(tmp_path, text):
    path = tmp_path / "recording.jsonl"
    path.write_text(text)
    with pytest.raises(PermanentFailure, match="is not a valid recording"):
        await Replay(path).complete(PROMPT)


async def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(PermanentFailure, match="is not a valid recording"):
        await Replay(tmp_path).complete(PROMPT)
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PermanentFailure, match="is not a valid recording"):
        await Replay(path).complete(PROMPT)
