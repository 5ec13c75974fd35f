"""What was not asked for longest is forgotten first, and never more is held than may be."""

import torch

from workers.checker.answers import Exact
from workers.checker.memory import Entry, Key, Memory


def key(stream: int) -> Key:
    return Key("digest", "M=1", "timed", "5eed", stream)


def entry(size: int, inputs: int = 0, *, widened: bool = False) -> Entry:
    answers = (Exact(torch.zeros(size, dtype=torch.uint8)),)
    return Entry(answers, widened, (torch.zeros(inputs, dtype=torch.uint8),))


def test_answers_are_recalled_by_content():
    memory = Memory(100)
    kept = entry(10)
    memory.keep(key(1), kept)
    assert memory.recall(key(1), widened=False) is kept
    assert memory.recall(key(2), widened=False) is None
    assert memory.recall(Key("other", "M=1", "timed", "5eed", 1), widened=False) is None


def test_the_least_recently_asked_for_goes_first():
    memory = Memory(30)
    for stream in (1, 2, 3):
        memory.keep(key(stream), entry(10))
    assert memory.recall(key(1), widened=False)
    memory.keep(key(4), entry(10))
    assert [stream for stream in (1, 2, 3, 4) if memory.recall(key(stream), widened=False)] == [1, 3, 4]


def test_what_is_too_large_is_not_kept():
    memory = Memory(30)
    memory.keep(key(1), entry(31))
    assert memory.recall(key(1), widened=False) is None
    memory.keep(key(1), entry(30))
    assert memory.recall(key(1), widened=False)


def test_inputs_take_room_too():
    memory = Memory(30)
    memory.keep(key(1), entry(10, inputs=21))
    assert memory.recall(key(1), widened=False) is None


def test_widened_answers_replace_the_others():
    memory = Memory(30)
    memory.keep(key(1), entry(20))
    assert memory.recall(key(1), widened=True) is None
    wide = entry(20, widened=True)
    memory.keep(key(1), wide)
    assert memory.recall(key(1), widened=True) is wide
    assert memory.recall(key(1), widened=False) is wide
    memory.clear()
    assert memory.recall(key(1), widened=False) is None
