"""A process that answers lines: said and heard, hung up on, killed."""

import select
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from workers.line_process import LineProcess

LONG_S = 60.0
ECHO = "import sys\nfor line in sys.stdin:\n    print(line.strip().upper(), flush=True)\n"
SPLIT = "import sys, time\nsys.stdout.write('a\\nb\\nc')\nsys.stdout.flush()\ntime.sleep(600)\n"

Launch = Callable[[str], LineProcess]


@pytest.fixture
def launch() -> Iterator[Launch]:
    started: list[LineProcess] = []

    def launch(program: str) -> LineProcess:
        started.append(LineProcess((sys.executable, "-c", program)))
        return started[-1]

    yield launch
    for process in started:
        process.kill()


def test_a_line_is_answered_by_a_line(launch: Launch) -> None:
    process = launch(ECHO)
    for word in (b"one", b"two" * 1_000_000):
        process.say(word)
        assert process.hear(LONG_S) == word.upper()
    assert process.hear(0.0) is None


def test_it_can_be_waited_for_beside_other_things(launch: Launch) -> None:
    process = launch(ECHO)
    process.say(b"word" * 500_000)
    assert process.is_sending
    while (heard := process.hear(0.0)) is None:
        assert any(select.select([process], [process] if process.is_sending else [], [], LONG_S))
    assert heard == b"WORD" * 500_000 and not process.is_sending


def test_lines_come_one_by_one_and_whole(launch: Launch) -> None:
    process = launch(SPLIT)
    assert [process.hear(LONG_S), process.hear(LONG_S)] == [b"a", b"b"]
    assert process.hear(0.05) is None


def test_who_ended_hangs_up_and_has_a_status(launch: Launch) -> None:
    process = launch("raise SystemExit(3)")
    with pytest.raises((EOFError, OSError)):
        process.hear(LONG_S)
    process.kill()
    assert (process.alive, process.status) == (False, 3)


def test_who_is_hung_up_on_may_end_by_itself(launch: Launch) -> None:
    process = launch(ECHO)
    process.say(b"ready")
    process.hear(LONG_S)
    process.close(LONG_S)
    process.close(LONG_S)
    assert process.status == 0
    slow = launch("import time\ntime.sleep(600)")
    slow.close(0.05)
    assert slow.status == -9


def test_a_process_that_is_interrupted_by_another_thread_hangs_up(launch: Launch) -> None:
    process = launch(SPLIT)
    assert process.hear(LONG_S) == b"a"
    process.hear(LONG_S)
    timer = threading.Timer(0.2, process.interrupt)
    timer.start()
    with pytest.raises(EOFError):
        process.hear(LONG_S)
    timer.join()


def test_chatter_is_no_answer_of_a_duplex_process(capfd: pytest.CaptureFixture[str]) -> None:
    answering = "for line in sys.stdin:\n    os.write(0, line.upper().encode())\n"
    program = f"import os, sys\nprint('a banner', flush=True)\n{answering}"
    process = LineProcess((sys.executable, "-c", program), duplex=True)
    process.say(b"word")
    assert process.hear(LONG_S) == b"WORD"
    process.kill()
    assert capfd.readouterr().err == "a banner\n"


def test_a_process_gets_the_environment_that_is_given() -> None:
    program = "import os\nprint(sorted(name for name in os.environ if name in ('HOME', 'GIVEN')), flush=True)\n"
    process = LineProcess((sys.executable, "-c", program), environment={"GIVEN": "1"})
    assert process.hear(LONG_S) == b"['GIVEN']"
    process.kill()
