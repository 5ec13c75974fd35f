"""Turns on a card: many at once, or one alone; nobody is passed by for ever, and whoever dies lets go."""

import os
import select
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from workers.errors import Transient
from workers.gpu_lock import BASELINES, LARGE, GpuLock, MemoryLock, SoleUse

ROOT = Path(__file__).parents[2]
CARD = "0000:1B:00.0"
SOON_S, WAIT_S = 0.3, 30.0
PROGRAM = """
import sys
from pathlib import Path
from workers.gpu_lock import GpuLock

folder, card, how = sys.argv[1:]
lock = GpuLock(card, Path(folder))
print("waits", flush=True)
with getattr(lock, how)():
    print("has it", flush=True)
    sys.stdin.readline()
print("left", flush=True)
sys.stdin.readline()
"""


class Other:
    """Another process, which wants a turn, and holds it until it is told to leave."""

    def __init__(self, folder: Path, how: str, card: str = CARD) -> None:
        command = (sys.executable, "-c", PROGRAM, str(folder), card, how)
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.says() == "waits"

    def says(self, timeout_s: float = WAIT_S) -> str | None:
        """The next thing it says, if it does within `timeout_s` seconds."""
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        return self._process.stdout.readline().decode().strip() if ready else None

    def leave(self) -> None:
        self._process.stdin.write(b"\n")
        assert self.says() == "left"

    def die(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[..., Other]]:
    with ExitStack() as stack:

        def start(how: str, card: str = CARD) -> Other:
            found = Other(tmp_path, how, card)
            stack.callback(found.die)
            return found

        yield start


def test_many_are_among_others_at_once(other: Callable[..., Other]) -> None:
    assert [each.says() for each in (other("shared"), other("shared"))] == ["has it", "has it"]


@pytest.mark.parametrize("waiting", ["exclusive", "shared"])
def test_nobody_else_has_a_turn_while_one_is_alone(other: Callable[..., Other], waiting: str) -> None:
    first = other("exclusive")
    assert first.says() == "has it"
    second = other(waiting)
    assert second.says(SOON_S) is None
    first.leave()
    assert second.says() == "has it"


def test_whoever_wants_to_be_alone_waits_for_all_others(other: Callable[..., Other]) -> None:
    many = [other("shared"), other("shared")]
    assert [each.says() for each in many] == ["has it", "has it"]
    single = other("exclusive")
    many[0].leave()
    assert single.says(SOON_S) is None
    many[1].leave()
    assert single.says() == "has it"


def test_who_comes_later_does_not_get_past_who_waits_to_be_alone(other: Callable[..., Other]) -> None:
    first = other("shared")
    assert first.says() == "has it"
    single = other("exclusive")
    assert single.says(SOON_S) is None
    late = other("shared")
    assert late.says(SOON_S) is None
    first.leave()
    assert single.says() == "has it" and late.says(SOON_S) is None
    single.leave()
    assert late.says() == "has it"


def test_who_dies_lets_go(other: Callable[..., Other]) -> None:
    first, second = other("exclusive"), other("exclusive")
    assert first.says() == "has it" and second.says(SOON_S) is None
    first.die()
    assert second.says() == "has it"


def test_cards_have_turns_of_their_own(other: Callable[..., Other]) -> None:
    assert other("exclusive").says() == "has it"
    assert other("exclusive", "0000:1C:00.0").says() == "has it"


def test_a_turn_ends_with_whatever_goes_wrong_in_it(tmp_path: Path, other: Callable[..., Other]) -> None:
    turns = GpuLock(CARD, tmp_path)
    with pytest.raises(KeyError), turns.exclusive():
        raise KeyError
    assert other("exclusive").says() == "has it"
    turns.close()
    turns.close()


def test_a_turn_within_a_turn_takes_its_place_until_it_is_left(tmp_path: Path, other: Callable[..., Other]) -> None:
    turns = GpuLock(CARD, tmp_path)
    with turns.shared():
        with turns.away():
            single = other("exclusive")
            assert single.says() == "has it"
            single.leave()
        waiting = other("exclusive")
        assert waiting.says(SOON_S) is None
        with turns.shared():
            assert waiting.says(SOON_S) is None
        # Who waits holds the gate: first comes its turn, then this one.
        with ThreadPoolExecutor(1) as pool:
            passed_by = pool.submit(lambda: (waiting.says(), waiting.leave()))
            with turns.exclusive():
                assert passed_by.result(WAIT_S) == ("has it", None)
                late = other("shared")
                assert late.says(SOON_S) is None
    assert late.says() == "has it"
    late.leave()
    assert other("exclusive").says() == "has it"
    turns.close()


def test_other_users_may_take_turns_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        GpuLock(CARD, tmp_path).close()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in sorted(tmp_path.iterdir())]
    assert modes == [0o644, 0o644]


def test_turns_alone_that_follow_each_other_are_one_stretch(
    tmp_path: Path, other: Callable[..., Other], monkeypatch
) -> None:
    monkeypatch.setattr("workers.gpu_lock.STRETCH_S", WAIT_S)
    with closing(GpuLock(CARD, tmp_path)) as mine:
        with mine.exclusive(linger_s=WAIT_S):
            pass
        someone = other("exclusive")
        assert someone.says(SOON_S) is None
        with mine.exclusive():
            assert mine.waited_s < SOON_S
        assert someone.says() == "has it"


def test_a_turn_lingers_no_longer_than_it_was_to(tmp_path: Path, other: Callable[..., Other]) -> None:
    with closing(GpuLock(CARD, tmp_path)) as mine, mine.shared():
        with mine.exclusive(linger_s=SOON_S):
            someone = other("shared")
        assert someone.says() == "has it"


@pytest.mark.parametrize("then", ["shared", "away"])
def test_whatever_else_is_wanted_ends_it_at_once(then: str, tmp_path: Path, other: Callable[..., Other]) -> None:
    with closing(GpuLock(CARD, tmp_path)) as mine:
        with mine.exclusive(linger_s=WAIT_S):
            someone = other("shared")
        with getattr(mine, then)():
            assert someone.says() == "has it"


def test_a_turn_that_is_left_takes_what_lingers_with_it(tmp_path: Path, other: Callable[..., Other]) -> None:
    with closing(GpuLock(CARD, tmp_path)) as mine:
        with mine.shared(), mine.exclusive(linger_s=SOON_S):
            someone = other("exclusive")
        assert someone.says() == "has it"
        time.sleep(2 * SOON_S)
        someone.leave()
        assert other("exclusive").says() == "has it"


def test_others_get_their_turn_when_a_stretch_was_long(
    tmp_path: Path, other: Callable[..., Other], monkeypatch
) -> None:
    monkeypatch.setattr("workers.gpu_lock.STRETCH_S", 0.0)
    with closing(GpuLock(CARD, tmp_path)) as mine:
        with mine.exclusive(linger_s=WAIT_S):
            someone = other("exclusive")
        assert someone.says(SOON_S) is None
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(lambda: mine.exclusive().__enter__())
            assert someone.says() == "has it"
            someone.leave()
            again.result(WAIT_S)


def test_others_have_turn_after_turn_for_as_long_as_a_stretch_kept_them_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("workers.gpu_lock.STRETCH_S", SOON_S)

    def three_turns(turns: GpuLock) -> None:
        for _ in range(3):
            with turns.exclusive():
                pass

    with closing(GpuLock(CARD, tmp_path)) as mine, closing(GpuLock(CARD, tmp_path)) as its, mine.shared():
        with ThreadPoolExecutor(2) as pool:
            with mine.exclusive(linger_s=WAIT_S):
                someone = pool.submit(three_turns, its)
                time.sleep(8 * SOON_S)
            again = pool.submit(lambda: mine.exclusive().__enter__())
            someone.result(4 * SOON_S)
            again.result(WAIT_S)
        assert mine.waited_s > 8 * SOON_S


def test_a_stretch_that_nobody_waits_for_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("workers.gpu_lock.STRETCH_S", 0.0)
    with closing(GpuLock(CARD, tmp_path)) as mine:
        for _ in range(3):
            with mine.exclusive(linger_s=WAIT_S):
                time.sleep(SOON_S)
        assert mine.waited_s < SOON_S


def test_seconds_of_waiting_are_counted(tmp_path: Path, other: Callable[..., Other]) -> None:
    with closing(GpuLock(CARD, tmp_path)) as mine:
        with mine.shared():
            assert mine.waited_s < SOON_S
        someone = other("exclusive")
        assert someone.says() == "has it"
        with ThreadPoolExecutor(1) as pool:
            leaving = pool.submit(lambda: (time.sleep(SOON_S), someone.leave()))
            with mine.exclusive():
                assert SOON_S / 2 < mine.waited_s < WAIT_S
            leaving.result()


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    GpuLock(CARD, tmp_path).close()
    victim, gate = tmp_path / "victim", next(tmp_path.glob("*-gate.lock"))
    victim.touch()
    gate.unlink()
    gate.symlink_to(victim)
    with pytest.raises(Transient, match="needs a file"):
        GpuLock(CARD, tmp_path)


@pytest.mark.parametrize("what", [LARGE, BASELINES])
def test_what_a_card_has_once_is_one_processs_at_a_time(what: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        one, other, elsewhere, another = (
            stack.enter_context(closing(SoleUse(card, named, tmp_path)))
            for card, named in (("0:1", what), ("0:1", what), ("0:2", what), ("0:1", "another"))
        )
        one.take()
        one.take()
        elsewhere.take()
        another.take()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.take)
            time.sleep(SOON_S)
            assert not waiting.done()
            one.release()
            waiting.result(WAIT_S)
        other.close()
        one.take()


def test_memory_is_shared_until_one_process_wants_it_alone(tmp_path: Path) -> None:
    with closing(MemoryLock(CARD, tmp_path)) as mine, closing(MemoryLock(CARD, tmp_path)) as its:
        mine.share()
        its.share()
        assert not mine.is_wanted and not its.is_wanted and not mine.is_alone
        with ThreadPoolExecutor(2) as pool:
            taking = pool.submit(its.take)
            while not mine.is_wanted:
                time.sleep(0.01)
            assert not taking.done(), "it waits, and others can see it"
            mine.release()
            assert not mine.is_wanted
            taking.result(WAIT_S)
            assert its.is_alone and not its.is_wanted
            sharing = pool.submit(mine.share)
            while not its.is_wanted:
                time.sleep(0.01)
            its.share()
            assert its.is_alone and not sharing.done(), "what is held alone stays so until it is released"
            its.release()
            sharing.result(WAIT_S)


def test_a_process_that_shares_memory_is_not_wanted_by_others_that_share(tmp_path: Path) -> None:
    with closing(MemoryLock(CARD, tmp_path)) as mine:
        mine.share()
        with closing(MemoryLock(CARD, tmp_path)) as its:
            its.share()
            assert not mine.is_wanted
        mine.close()
