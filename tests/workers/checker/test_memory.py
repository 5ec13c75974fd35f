"""What is asked for again and again stays, and never more is held than may be."""

import torch

from workers.checker.answers import Exact
from workers.checker.memory import RECENT, Entry, Key, Memory


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


def test_what_recent_subjects_asked_for_stays_and_then_the_oldest_goes_first():
    memory = Memory(30)
    for stream in (1, 2, 3):
        memory.keep(key(stream), entry(10))
    memory.keep(key(4), entry(10))
    assert recalled(memory) == [1, 2, 3]
    for _ in range(RECENT - 1):
        memory.begin()
    assert memory.recall(key(1), widened=False)
    memory.keep(key(4), entry(10))
    assert memory.recall(key(4), widened=False) is None
    memory.begin()
    memory.keep(key(4), entry(10))
    assert recalled(memory) == [1, 3, 4]


def test_more_than_fits_is_found_again_as_far_as_it_fits():
    memory, found = Memory(80), []
    for _ in range(3 * RECENT):
        memory.begin()
        known = [memory.recall(key(stream), widened=False) for stream in range(10) if keep_unknown(memory, stream)]
        found.append(len(known))
    assert found[0] == 0 and set(found[1:]) == {8}


def keep_unknown(memory: Memory, stream: int) -> bool:
    known = memory.recall(key(stream), widened=False) is not None
    if not known:
        memory.keep(key(stream), entry(10))
    return known


def recalled(memory: Memory) -> list[int]:
    return [stream for stream in (1, 2, 3, 4) if memory.recall(key(stream), widened=False)]


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
