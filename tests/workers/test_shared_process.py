"""One process serves all who call at its folder, and is there as long as somebody is."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.workers.test_child_process import is_alive, wait_for
from workers.child_process import ChildDied, ChildSilent, ForkedChild
from workers.commands import (
    AttachArena,
    ChildBroken,
    ChildReady,
    CommandRefused,
    DropCache,
    Order,
    Reply,
    Reset,
    TimeRound,
)
from workers.errors import Transient
from workers.shared_process import DOOR, LOCK, SharedConnection, _begin

WAIT_S, BRIEF_S = 20.0, 0.2


class Counting:
    """Counts what it was asked, and tells; some orders it cannot bear."""

    def __init__(self, left: Path = Path(os.devnull)) -> None:
        self.asked = 0
        self.left = left

    @property
    def greeting(self) -> Reply:
        return ChildReady(card="paper", versions={"pid": str(os.getpid())})

    def answer(self, order: Order) -> Reply:
        self.asked += 1
        if isinstance(order, DropCache):
            return ChildBroken(error="it is beside itself")
        if isinstance(order, TimeRound):
            time.sleep(WAIT_S)
        return CommandRefused(reason=str(self.asked))

    def leave(self) -> None:
        self.left.touch()


ASK = Reset()


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Callable[..., SharedConnection]]:
    lines: list[SharedConnection] = []

    def call(receive: Callable[[], object] = Counting, *, heard: bool = True) -> SharedConnection:
        lines.append(SharedConnection(tmp_path / "shared", receive))
        if heard:
            assert isinstance(lines[-1].hear(WAIT_S), ChildReady)
        return lines[-1]

    yield call
    for line in lines:
        line.close()


def gone(pid: int) -> bool:
    return wait_for(lambda: not is_alive(pid), WAIT_S)


def test_all_who_call_are_served_by_one_process_each_for_itself(call) -> None:
    one, other = call(), call()
    assert one.pid == other.pid != os.getpid()
    assert [line.ask(ASK, WAIT_S) for line in (one, one, other)] == [
        CommandRefused(reason=reason) for reason in ("1", "2", "1")
    ]


def test_those_who_call_at_once_start_one_process(call) -> None:
    with ThreadPoolExecutor(8) as pool:
        lines = list(pool.map(lambda _: call(), range(8)))
    assert len({line.pid for line in lines}) == 1


def test_it_outlives_who_started_it(call, tmp_path: Path) -> None:
    def start(channel) -> None:
        line = SharedConnection(tmp_path / "shared", Counting)
        line.hear(WAIT_S)
        channel.answer(ChildReady(card=str(line.pid)))
        next(channel.orders())

    starter = ForkedChild(start)
    started = int(starter.hear(WAIT_S).card)
    line = call()
    starter.kill()
    assert line.pid == started
    assert line.ask(ASK, WAIT_S) == CommandRefused(reason="1")


def test_it_lets_go_of_what_was_there_for_who_hangs_up(call, tmp_path: Path) -> None:
    one, other = call(lambda: Counting(tmp_path / "left")), call()
    one.close()
    while not (tmp_path / "left").exists():
        assert isinstance(other.ask(ASK, WAIT_S), CommandRefused)


def test_it_ends_when_the_last_one_has_hung_up_and_the_next_starts_another(call) -> None:
    one, other = call(), call()
    one.close()
    assert other.ask(ASK, WAIT_S) == CommandRefused(reason="1")
    other.close()
    assert gone(other.pid)
    assert call().pid != one.pid


def test_it_ends_where_nobody_calls_whom_it_was_started_for(tmp_path: Path) -> None:
    _begin(tmp_path, Counting)
    assert wait_for(lambda: not listens(tmp_path / DOOR), WAIT_S)


def listens(door: Path) -> bool:
    """Whether somebody has a door open, without knocking."""
    return any(connection.laddr == str(door) for connection in psutil.net_connections("unix"))


def test_a_process_that_is_lost_is_lost_to_all_and_started_again(call) -> None:
    one, other = call(), call()
    os.kill(one.pid, signal.SIGKILL)
    for line in (one, other):
        with pytest.raises(ChildDied, match=f"{one.pid} hung up"):
            line.ask(ASK, WAIT_S)
    again, too = call(), call()
    assert again.pid == too.pid != one.pid


def test_a_process_that_does_not_answer_is_ended(call) -> None:
    line = call()
    with pytest.raises(ChildSilent):
        line.ask(TimeRound(), BRIEF_S)
    assert gone(line.pid)


def test_what_failed_once_is_asked_nothing_more(call) -> None:
    one, other = call(), call()
    assert isinstance(one.ask(DropCache(), WAIT_S), ChildBroken)
    with pytest.raises(ChildDied):
        other.ask(ASK, WAIT_S)
    assert call().ask(ASK, WAIT_S) == CommandRefused(reason="1")


def test_what_cannot_be_made_ready_says_so(call) -> None:
    line = call(lambda: ChildBroken(error="no card"), heard=False)
    assert line.hear(WAIT_S) == ChildBroken(error="no card")
    assert gone(line.pid)


def test_who_talks_nonsense_is_seen_off_and_nobody_else(call) -> None:
    one, other = call(), call()
    one._end.sendall(b"what?\n")
    with pytest.raises(ChildDied):
        one.hear(WAIT_S)
    assert other.ask(ASK, WAIT_S) == CommandRefused(reason="1")


def test_who_hangs_up_on_an_answer_harms_nobody(call) -> None:
    one, other = call(), call()
    one._send(b'{"order": "scrub"}\n' * 1000, time.monotonic() + WAIT_S)
    one.close()
    assert other.ask(ASK, WAIT_S) == CommandRefused(reason="1")


def test_a_folder_of_others_is_not_trusted(call, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared").chmod(0o755)
    with pytest.raises(Transient, match="this user alone"):
        call()


def test_a_door_that_nobody_listens_at_is_made_anew(call, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / DOOR))
    assert call().ask(AttachArena(handle="", arena_bytes=0), WAIT_S) == CommandRefused(reason="1")
    assert {path.name for path in folder.iterdir()} == {DOOR, LOCK}
