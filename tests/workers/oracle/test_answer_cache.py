"""What is asked for again and again stays, and never more is held than may be."""

import torch

from workers.oracle.answer_cache import (
    ENTRY_SHARE,
    LEAST_SHARE,
    RECENT,
    RECOVERY,
    SUBJECTS_PER_SECRET,
    AnswerCache,
    AnswerKey,
    CachedAnswer,
)
from workers.oracle.answers import ExactAnswer

DIGEST = "digest"


def key(stream: int, digest: str = DIGEST) -> AnswerKey:
    return AnswerKey(digest, "M=1", "timed", "5eed", stream)


def entry(size: int, *, widened: bool = False) -> CachedAnswer:
    return CachedAnswer((ExactAnswer(torch.zeros(size, dtype=torch.uint8)),), widened)


def test_answers_are_recalled_by_content():
    memory = AnswerCache(10 * ENTRY_SHARE)
    kept = entry(10)
    memory.keep(key(1), kept)
    assert memory.recall(key(1), widened=False) is kept
    assert memory.recall(key(2), widened=False) is None
    assert memory.recall(AnswerKey("other", "M=1", "timed", "5eed", 1), widened=False) is None


def test_what_recent_subjects_asked_for_stays_and_then_the_oldest_goes_first():
    memory, last = AnswerCache(10 * ENTRY_SHARE), ENTRY_SHARE + 1
    memory.begin(DIGEST)
    for stream in range(1, last):
        memory.keep(key(stream), entry(10))
    memory.keep(key(last), entry(10))
    assert recalled(memory) == list(range(1, last))
    for _ in range(RECENT - 1):
        memory.begin(DIGEST)
    assert memory.recall(key(1), widened=False)
    memory.keep(key(last), entry(10))
    assert memory.recall(key(last), widened=False) is None
    memory.begin(DIGEST)
    memory.keep(key(last), entry(10))
    assert recalled(memory) == [1, *range(3, last + 1)]


def test_each_of_several_who_ask_is_recent_for_as_long_as_one_who_is_alone():
    memory, last = AnswerCache(10 * ENTRY_SHARE), ENTRY_SHARE + 1
    for asker in range(3):
        memory.make_way(asker, 64)
    memory.begin(DIGEST)
    for stream in range(1, last):
        memory.keep(key(stream), entry(10))
    for begun in range(1, 3 * RECENT + 1):
        memory.begin(DIGEST)
        memory.keep(key(last), entry(10))
        assert (memory.recall(key(last), widened=False) is not None) is (begun == 3 * RECENT)


def test_a_secret_is_told_to_many_subjects_of_an_operator_and_then_another_one():
    memory = AnswerCache(30 * ENTRY_SHARE)
    told = {name: [] for name in ("one", "other")}
    for _ in range(2 * SUBJECTS_PER_SECRET):
        for name, secrets in told.items():
            secrets.append(memory.begin(name))
    for secrets in told.values():
        assert len(set(secrets)) == 2
        assert set(secrets[:SUBJECTS_PER_SECRET]) == {secrets[0]} and secrets[SUBJECTS_PER_SECRET] == secrets[-1]
    assert not set(told["one"]) & set(told["other"])


def test_answers_go_with_the_secret_of_their_operator():
    memory = AnswerCache(30 * ENTRY_SHARE)
    for name in ("one", "other"):
        memory.begin(name)
        memory.keep(key(1, name), entry(10))
    for _ in range(SUBJECTS_PER_SECRET - 1):
        memory.begin("one")
    assert memory.recall(key(1, "one"), widened=False) and memory.recall(key(1, "other"), widened=False)
    memory.begin("one")
    assert memory.recall(key(1, "one"), widened=False) is None and memory._held_bytes == 10
    memory.begin("one")
    assert memory.recall(key(1, "other"), widened=False) is None, "nobody judges it any more"
    assert memory._held_bytes == 0


def test_operators_in_turn_keep_what_fits_of_their_answers():
    memory, found = AnswerCache(10 * ENTRY_SHARE), []
    names = [f"operator {number}" for number in range(8)]
    for _ in range(4 * RECENT):
        for name in names:
            memory.begin(name)
            found.append(sum(not keep_unknown(memory, stream, name) for stream in range(ENTRY_SHARE // 4)))
    assert sum(found[:8]) == 0 and all(sum(found[at : at + 8]) == ENTRY_SHARE for at in range(8, len(found), 8))


def test_an_operator_whose_search_has_ended_makes_room():
    memory = AnswerCache(10 * ENTRY_SHARE)
    for name in ("ended", "other"):
        memory.begin(name)
    for stream in range(1, ENTRY_SHARE + 1):
        memory.keep(key(stream, "ended"), entry(10))
    for _ in range(2 * RECENT - 1):
        memory.begin("other")
    memory.keep(key(1, "other"), entry(10))
    assert memory.recall(key(1, "other"), widened=False) is None
    memory.begin("other")
    memory.keep(key(1, "other"), entry(10))
    assert memory.recall(key(1, "other"), widened=False)


def test_what_takes_long_to_compute_takes_the_place_of_what_does_not():
    memory = AnswerCache(10 * ENTRY_SHARE)
    memory.begin("quick")
    for stream in range(1, ENTRY_SHARE + 1):
        memory.keep(key(stream, "quick"), entry(10), 0.003)
    memory.keep(key(1, "similar"), entry(10), 0.005)
    assert memory.recall(key(1, "similar"), widened=False) is None
    memory.keep(key(1, "slow"), entry(10), 0.007)
    assert memory.recall(key(1, "slow"), widened=False)
    for stream in range(2, ENTRY_SHARE + 1):
        memory.keep(key(stream, "quick"), entry(10), 0.003)
    assert memory.recall(key(1, "slow"), widened=False) and memory._held_bytes == 10 * ENTRY_SHARE


def test_fewer_answers_are_kept_for_a_while_after_memory_was_too_small():
    memory = AnswerCache(10 * ENTRY_SHARE)
    for stream in range(1, ENTRY_SHARE + 1):
        memory.keep(key(stream), entry(10))
    memory.give_way()
    assert recalled(memory) == list(range(ENTRY_SHARE // 4 + 1, ENTRY_SHARE + 1))
    memory.keep(key(1), entry(10))
    assert memory.recall(key(1), widened=False) is None
    for _ in range(8):
        memory.give_way()
    assert memory.capacity_bytes == LEAST_SHARE * 10 * ENTRY_SHARE
    for _ in range(RECOVERY):
        memory.begin(DIGEST)
    assert memory.capacity_bytes == 10 * ENTRY_SHARE


def test_more_than_fits_is_found_again_as_far_as_it_fits():
    memory, found = AnswerCache(10 * ENTRY_SHARE), []
    for _ in range(3 * RECENT):
        memory.begin(DIGEST)
        found.append(sum(not keep_unknown(memory, stream) for stream in range(ENTRY_SHARE + 2)))
    assert found[0] == 0 and set(found[1:]) == {ENTRY_SHARE}


def keep_unknown(memory: AnswerCache, stream: int, digest: str = DIGEST) -> bool:
    unknown = memory.recall(key(stream, digest), widened=False) is None
    if unknown:
        memory.keep(key(stream, digest), entry(10))
    return unknown


def recalled(memory: AnswerCache) -> list[int]:
    return [stream for stream in range(1, ENTRY_SHARE + 2) if memory.recall(key(stream), widened=False)]


def test_what_is_too_large_is_not_kept():
    memory = AnswerCache(30 * ENTRY_SHARE)
    memory.keep(key(1), entry(31))
    assert memory.recall(key(1), widened=False) is None
    memory.keep(key(1), entry(30))
    assert memory.recall(key(1), widened=False)


def test_sums_follow_from_a_key_that_nobody_knows():
    keys = {AnswerCache(0).key for _ in range(8)}
    assert len(keys) == 8 and all(each % 2 and each < 2**63 for each in keys)


def test_widened_answers_replace_the_others():
    memory = AnswerCache(30 * ENTRY_SHARE)
    memory.keep(key(1), entry(20))
    assert memory.recall(key(1), widened=True) is None
    wide = entry(20, widened=True)
    memory.keep(key(1), wide)
    assert memory.recall(key(1), widened=True) is wide
    assert memory.recall(key(1), widened=False) is wide
    memory.clear()
    assert memory.recall(key(1), widened=False) is None


def test_answers_make_way_for_arenas():
    memory = AnswerCache(10 * ENTRY_SHARE, room_bytes=12 * ENTRY_SHARE)
    one, other = object(), object()
    memory.make_way(one, 2 * ENTRY_SHARE)
    for stream in range(1, ENTRY_SHARE + 1):
        memory.keep(key(stream), entry(10))
    assert recalled(memory) == list(range(1, ENTRY_SHARE + 1))
    memory.make_way(other, 5 * ENTRY_SHARE)
    kept = recalled(memory)
    assert kept == list(range(ENTRY_SHARE // 2 + 1, ENTRY_SHARE + 1))
    memory.keep(key(1), entry(10))
    assert recalled(memory) == kept, "recent subjects asked for all of these"
    memory.make_way(one, 20 * ENTRY_SHARE)
    assert recalled(memory) == []
    memory.make_way(one, 0)
    memory.make_way(other, 0)
    memory.keep(key(1), entry(10))
    assert recalled(memory) == [1]
