"""Waiting lines: one job each, whoever asks, and nobody is left behind."""

from service.evaluation.jobs import JobSubject
from service.evaluation.pending import Pending
from tests.service import records


def asked(search: str, candidate: str = "c") -> JobSubject:
    return JobSubject(records.search(id=search), records.OPERATOR, records.candidate(id=f"{search}-{candidate}"))


def test_only_the_first_has_the_job_sent_and_all_are_told() -> None:
    line: Pending[str, JobSubject] = Pending()
    first, second = asked("a"), asked("b")
    assert [line.join("key", who) for who in (first, second, second)] == [True, False, False]
    assert line.has("key", second) and not line.has("other", second) and line.awaits("b-c")
    assert line.claim("key") == [first, second] and line.claim("key") == []
    assert not line.awaits("b-c") and line.join("key", second), "the next one begins anew"


def test_a_candidate_waits_until_it_has_left_every_line() -> None:
    line: Pending[str, JobSubject] = Pending()
    for key in ("one", "two", "three", "three"):
        line.join(key, asked("a"))
    line.claim("one")
    line.claim("three")
    assert line.awaits("a-c")
    line.forget("a")
    assert not line.awaits("a-c") and line.claim("two") == []


def test_whoever_is_forgotten_leaves_and_the_others_are_named() -> None:
    line: Pending[str, JobSubject] = Pending()
    for key, who in (("one", asked("a")), ("one", asked("b")), ("two", asked("b")), ("three", asked("a"))):
        line.join(key, who)
    assert line.forget("a") == {"b"}
    assert not line.awaits("a-c") and line.awaits("b-c")
    assert line.forget("a") == set(), "once"


def test_a_job_that_may_be_lost_is_sent_again_for_whoever_asks_next() -> None:
    line: Pending[str, JobSubject] = Pending()
    line.join("key", asked("a"))
    line.join("key", asked("b"))
    line.forget("a")
    assert line.join("key", asked("a")), "as a sweep of the first search does"
    assert line.forget("b") == set() and not line.join("key", asked("b"))
    line.forget("a")
    assert line.join("key", asked("b")), "as a sweep of the second one does, where the first has ended"


def test_nobody_is_left_behind_by_a_search_that_waited_alone() -> None:
    line: Pending[str, JobSubject] = Pending()
    line.join("key", asked("a"))
    assert line.forget("a") == set() and line.join("key", asked("b"))
