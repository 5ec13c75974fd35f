import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.child_process import ChildChannel, ChildDied, ChildSilent, ForkedChild
from workers.commands import (
    AttachArena,
    ChildBroken,
    ChildReady,
    ExecuteRuns,
    InputContent,
    PairSide,
    Reset,
    RunCase,
    RunSlot,
)
from workers.errors import BadMessage, Transient

SLOT = RunSlot(start=0, end=512, buffers=(0,), scratch=(), zones=())


def echo(channel: ChildChannel) -> None:
    channel.answer(ChildReady(card="none"))
    for order in channel.orders():
        channel.answer(ChildBroken(error=order.order))


def silent(channel: ChildChannel) -> None:
    for _ in channel.orders():
        time.sleep(60)


def dying(channel: ChildChannel) -> None:
    for _ in channel.orders():
        os.kill(os.getpid(), signal.SIGSEGV)


def leaving(channel: ChildChannel) -> None:
    next(iter(channel.orders()))
    channel.answer(ChildBroken(error="last words"))


def raising(channel: ChildChannel) -> None:
    raise ZeroDivisionError


def telling(channel: ChildChannel) -> None:
    """Says which descriptors it holds, and where its standard output goes."""
    held = [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()]
    same = os.fstat(1).st_ino == os.fstat(2).st_ino
    channel.answer(ChildBroken(error=f"{len(held)} {same} {os.read(0, 1)!r}"))


def babbling(channel: ChildChannel) -> None:
    channel._end.sendall(b"what?\n")
    next(iter(channel.orders()))


@pytest.fixture
def hired():
    children = []

    def hire(target) -> ForkedChild:
        children.append(ForkedChild(target))
        return children[-1]

    yield hire
    for child in children:
        child.kill()


def wide_order() -> ExecuteRuns:
    """More than a pipe holds."""
    wide = SLOT.model_copy(update={"zones": tuple((index, 1) for index in range(400_000))})
    case = RunCase(plan=0, slot=wide, content=InputContent(draw="normal", seed="00"))
    return ExecuteRuns(side=PairSide.PACER, cases=(case,), zones="00")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_orders_are_answered_in_turn(hired) -> None:
    child = hired(echo)
    assert child.hear(10) == ChildReady(card="none")
    assert child.ask(Reset(), 10) == ChildBroken(error="scrub")
    assert child.ask(AttachArena(handle="00", arena_bytes=1), 10) == ChildBroken(error="attend")


def test_an_order_may_be_large(hired) -> None:
    child = hired(echo)
    child.hear(10)
    order = wide_order()
    assert child.ask(order, 60) == ChildBroken(error="execute")


def test_a_child_that_does_not_answer_is_silent(hired) -> None:
    child = hired(silent)
    started = time.monotonic()
    with pytest.raises(ChildSilent):
        child.ask(Reset(), 0.2)
    assert 0.2 <= time.monotonic() - started < 5
    assert is_alive(child.pid)


def test_a_child_that_does_not_listen_is_silent(hired) -> None:
    child = hired(lambda _: time.sleep(60))
    with pytest.raises(ChildSilent):
        child.ask(wide_order(), 0.5)


def test_a_child_that_dies_says_how(hired) -> None:
    child = hired(dying)
    with pytest.raises(ChildDied, match="SIGSEGV"):
        child.ask(Reset(), 10)
    assert not is_alive(child.pid)


def test_a_child_that_raises_ends(hired, capfd) -> None:
    child = hired(raising)
    with pytest.raises(ChildDied, match="exit status 1"):
        child.hear(10)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_last_words_are_heard(hired) -> None:
    child = hired(leaving)
    assert child.ask(Reset(), 10) == ChildBroken(error="last words")
    with pytest.raises(ChildDied, match="exit status 0"):
        child.ask(Reset(), 10)


def test_death_and_silence_are_worth_another_try() -> None:
    assert issubclass(ChildDied, Transient) and issubclass(ChildSilent, Transient)


def test_a_killed_child_is_gone(hired) -> None:
    child = hired(silent)
    child.kill()
    child.kill()
    assert not is_alive(child.pid)


def test_a_child_ends_when_its_parent_hangs_up(hired) -> None:
    child = hired(echo)
    child.hear(10)
    child.close()
    child.close()
    assert child._ended == "ended with exit status 0"
    assert not is_alive(child.pid)


def test_a_child_ends_when_its_parent_hangs_up_on_its_answer(hired) -> None:
    child = hired(echo)
    assert select.select([child._end], [], [], 10)[0], "an answer is there"
    child.close()
    assert child._ended == "ended with exit status 0"


def test_a_child_that_does_not_end_by_itself_is_killed(hired, monkeypatch) -> None:
    monkeypatch.setattr("workers.child_process.FAREWELL_S", 0.1)
    child = hired(lambda _: time.sleep(60))
    child.close()
    assert child._ended == "ended by SIGKILL"


def test_a_child_holds_nothing_of_its_parents(hired) -> None:
    with Path("/dev/zero").open("rb"):
        first, second = hired(silent), hired(telling)
        reply = second.hear(10)
    assert is_alive(first.pid)
    assert reply == ChildBroken(error="4 True b''")


def test_a_child_does_not_hold_its_siblings_line(hired) -> None:
    first, second = hired(echo), hired(silent)
    first.hear(10)
    first.close()
    assert first._ended == "ended with exit status 0"
    assert is_alive(second.pid)


def test_what_is_no_reply_is_refused(hired) -> None:
    child = hired(babbling)
    with pytest.raises(BadMessage, match="not a reply"):
        child.hear(10)


def test_children_die_with_their_parent() -> None:
    script = (
        "import time\n"
        "from workers.child_process import ForkedChild\n"
        "child = ForkedChild(lambda _: time.sleep(60))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    assert wait_for(lambda: not is_alive(pid))
