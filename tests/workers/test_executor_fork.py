"""A request for an executor, and what a worker learns of the fork, beside a template that these tests play."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from workers.errors import ExecutorDied
from workers.executor_fork import STATUS, ExecutorFork, ReceivedRequest, receive


class Played:
    """A template of which the test plays every part, and the pipe that it gets as an executor's files."""

    def __init__(self) -> None:
        self.end, self.workers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pipe = os.pipe()
        self.forks: list[ExecutorFork] = []
        self.links: list[socket.socket] = []

    def ask(self, *arguments: str) -> ExecutorFork:
        self.forks.append(ExecutorFork(self.workers.fileno(), arguments, *self.pipe))
        return self.forks[-1]

    def hear(self) -> ReceivedRequest:
        request = receive(self.end)
        assert request is not None
        self.links.append(socket.socket(fileno=request.link))
        return request

    def close(self) -> None:
        for end in (self.end, self.workers, *self.links):
            end.close()
        for fork in self.forks:
            fork.wait()
        for descriptor in self.pipe:
            os.close(descriptor)


@pytest.fixture
def template() -> Iterator[Played]:
    with closing(Played()) as template:
        yield template


def test_requests_of_several_workers_arrive_whole_and_with_their_files(template: Played) -> None:
    template.ask("trace", "--worker", "a")
    template.ask("measure", "--worker", "b" * 1000)
    first, second = template.hear(), template.hear()
    assert first.arguments == ["trace", "--worker", "a"]
    assert second.arguments == ["measure", "--worker", "b" * 1000]
    os.write(second.stderr, b"heard")
    assert os.read(first.stdin, 10) == b"heard"
    for descriptor in (first.stdin, first.stderr, second.stdin, second.stderr):
        os.close(descriptor)


@pytest.mark.parametrize("end", [3 << 8, signal.SIGSEGV, 0])
def test_the_status_is_what_the_template_says(template: Played, end: int) -> None:
    fork = template.ask("trace")
    template.hear()
    assert fork.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.01)
    template.links[0].sendall(STATUS.pack(end))
    assert fork.wait() == fork.poll() == fork.returncode == os.waitstatus_to_exitcode(end)


def test_a_kill_is_asked_for_by_hanging_up_and_the_status_still_comes(template: Played) -> None:
    fork = template.ask("trace")
    template.hear()
    fork.kill()
    fork.kill()
    assert template.links[0].recv(1) == b""
    template.links[0].sendall(STATUS.pack(signal.SIGKILL))
    assert fork.wait() == -signal.SIGKILL
    fork.kill()


def test_a_template_that_ends_takes_its_forks_along(template: Played) -> None:
    unheard = template.ask("trace")
    template.end.close()
    assert unheard.wait() == -signal.SIGKILL
    with pytest.raises(ExecutorDied, match="template"):
        template.ask("trace")


def test_nobody_asks_once_all_workers_are_gone(template: Played) -> None:
    template.workers.close()
    assert receive(template.end) is None
