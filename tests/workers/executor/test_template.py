"""The template of executors: each fork is an executor like any other, and ends with its worker and its template."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from service.fleet.executor_template import ExecutorTemplate
from tests.workers.queue.samples import trace_job
from workers.errors import ExecutorDied
from workers.executor.template import has_opened
from workers.executor_client import ExecutorClient
from workers.protocol import ExecutorReady, Outcome, TraceReport

READY_S = 120.0
ARGUMENTS = ("trace", "--worker", "w-1", "--answers", "0")
WORKER = """
import sys, time
from workers.executor_client import ExecutorClient
client = ExecutorClient(sys.argv[2:], template=int(sys.argv[1]))
client.ready(120)
print("ready", flush=True)
time.sleep(600)
"""

Launch = Callable[..., ExecutorClient]


@pytest.fixture(scope="module")
def template() -> Iterator[ExecutorTemplate]:
    """A template as users have it, not a fork of the tests' own warm process."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("PYTHONPATH", raising=False)
        template = ExecutorTemplate()
        template.start()
    yield template
    template.close()


@pytest.fixture
def launch(template: ExecutorTemplate) -> Iterator[Launch]:
    clients: list[ExecutorClient] = []

    def launch(*arguments: str) -> ExecutorClient:
        clients.append(ExecutorClient(arguments or ARGUMENTS, template=template.start()))
        return clients[-1]

    yield launch
    for client in clients:
        client.kill()


def forks(template: ExecutorTemplate) -> dict[int, psutil.Process]:
    return {process.pid: process for process in psutil.Process(template.pid).children()}


def ended(process: psutil.Process) -> bool:
    until = time.monotonic() + READY_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_forks_are_executors(launch: Launch) -> None:
    first, second = launch(), launch("both", "--device", "model:sm_90", "--worker", "w-2", "--answers", "0")
    for client, worker in ((first, "w-1"), (second, "w-2")):
        ready = client.ready(READY_S)
        assert isinstance(ready, ExecutorReady) and {"torch", "triton"} <= set(ready.versions)
        client.send(trace_job("job-1"))
        report = client.poll(READY_S)
        assert isinstance(report, TraceReport)
        assert (report.worker, report.outcome) == (worker, Outcome.SYNTAX_ERROR), report.reason


def test_a_fork_has_a_session_and_files_of_its_own(template: ExecutorTemplate, launch: Launch) -> None:
    first, before = launch(), forks(template)
    assert first.ready(READY_S) and launch().ready(READY_S)
    shared = {}
    for pid in forks(template):
        assert os.getsid(pid) == pid
        links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
        shared[pid] = {link for link in links if link.startswith("socket")}
    assert len(shared) == 2 and len(before) < 2
    sockets = {str(path.readlink()) for path in Path(f"/proc/{template.pid}/fd").iterdir()}
    assert all(not (found & sockets) for found in shared.values())
    assert not set.intersection(*shared.values())


def test_it_forks_with_one_thread_and_forks_import_nothing_anew(template: ExecutorTemplate, launch: Launch) -> None:
    before = forks(template)
    assert launch().ready(READY_S)
    (pid,) = set(forks(template)) - set(before)
    whole, own = (sum(psutil.Process(process).cpu_times()[:2]) for process in (template.pid, pid))
    assert psutil.Process(template.pid).num_threads() == 1
    assert own < whole / 4


def test_a_crash_is_told_and_the_next_fork_works(template: ExecutorTemplate, launch: Launch) -> None:
    before = forks(template)
    crashed = launch()
    assert crashed.ready(READY_S)
    (pid,) = set(forks(template)) - set(before)
    os.kill(pid, signal.SIGSEGV)
    with pytest.raises(ExecutorDied, match="status -11"):
        crashed.poll(READY_S)
    assert launch().ready(READY_S)


def test_a_fork_that_cannot_start_says_why(launch: Launch) -> None:
    with pytest.raises(
        ExecutorDied, match=r"status 1: ModuleNotFoundError: No module named 'workers\.executor\.neither'"
    ):
        launch("neither").ready(READY_S)
    with pytest.raises(ExecutorDied, match=r"status 2: .*--unheard"):
        launch("trace", "--unheard").ready(READY_S)


def test_a_busy_fork_is_killed_with_its_session(template: ExecutorTemplate, launch: Launch) -> None:
    before = forks(template)
    client = launch()
    assert client.ready(READY_S)
    (pid,) = set(forks(template)) - set(before)
    fork = psutil.Process(pid)
    fork.suspend()
    client.kill()
    client.kill()
    assert not client.alive and ended(fork)


def test_a_fork_ends_with_its_worker_however_that_ends(template: ExecutorTemplate, launch: Launch) -> None:
    before = forks(template)
    command = (sys.executable, "-c", WORKER, str(template.start()), *ARGUMENTS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=(template.start(),)) as worker:
        assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        (pid,) = set(forks(template)) - set(before)
        fork = psutil.Process(pid)
        fork.suspend()  # It cannot notice by itself.
        worker.kill()
    assert ended(fork)


def test_forks_end_with_the_template_and_another_template_takes_its_place(launch: Launch) -> None:
    template = ExecutorTemplate()
    client = ExecutorClient(ARGUMENTS, template=template.start())
    assert client.ready(READY_S)
    first = template.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ExecutorDied, match="status -9"):
        client.poll(READY_S)
    again = ExecutorClient(ARGUMENTS, template=template.start())
    assert again.ready(READY_S) and template.pid not in (None, first)
    template.close()
    with pytest.raises(ExecutorDied):
        again.poll(READY_S)


def test_open_device_files_are_noticed(tmp_path: Path) -> None:
    assert not has_opened() and not has_opened(str(tmp_path))
    with (tmp_path / "nvidiactl").open("w"):
        assert has_opened(f"{tmp_path}/nvidia")


OPENED = """
import sys
from workers.executor import template
opened = open(sys.argv.pop(1) + "/nvidiactl", "w")
template.has_opened = lambda: True
template.main()
"""


def test_where_a_library_has_opened_a_card_forks_are_new_processes(tmp_path: Path, cold: None) -> None:
    template = ExecutorTemplate(command=(sys.executable, "-c", OPENED, str(tmp_path)))
    client = ExecutorClient(ARGUMENTS, template=template.start())
    assert client.ready(READY_S)
    (fork,) = forks(template).values()
    assert "workers.executor" in fork.cmdline()
    links = [str(path.readlink()) for path in Path(f"/proc/{fork.pid}/fd").iterdir()]
    assert not any(link.startswith(str(tmp_path)) for link in links)
    client.kill()
    template.close()


SLOW = """
import pathlib, sys, time
from workers.executor import both, template

def warm():
    yield frozenset({"measure"})
    while not pathlib.Path(folder, "go").exists():
        time.sleep(0.01)
        yield frozenset()
    yield frozenset({"trace", "both"})

folder, both.warm = sys.argv.pop(1), warm
template.main()
"""


def test_a_kind_waits_for_its_own_steps_alone(tmp_path: Path, cold: None) -> None:
    template = ExecutorTemplate(command=(sys.executable, "-c", SLOW, str(tmp_path)))
    trace = ExecutorClient(ARGUMENTS, template=template.start())
    measure = ExecutorClient(("measure", "--device", "model:sm_90", *ARGUMENTS[1:]), template=template.start())
    assert measure.ready(READY_S) and trace.ready(0.0) is None
    assert len(forks(template)) == 1
    (tmp_path / "go").touch()
    assert trace.ready(READY_S)
    for client in (trace, measure):
        client.kill()
    template.close()


FAULTY = """
from workers.errors import SandboxUnsafe
from workers.executor import both, template

def warm():
    raise SandboxUnsafe("no process tree")
    yield

both.warm = warm
template.main()
"""


def test_forks_find_out_themselves_what_a_template_could_not_do(cold: None) -> None:
    template = ExecutorTemplate(command=(sys.executable, "-c", FAULTY))
    client = ExecutorClient(ARGUMENTS, template=template.start())
    assert client.ready(READY_S)
    client.kill()
    template.close()


CARDLESS = """
import ctypes, torch, triton.backends.nvidia.driver as driver
from workers.executor import template

def opened(*arguments, **options):
    raise SystemExit("the template asks for a card: a fork could not open it any more")

torch.cuda.is_available = torch.cuda.device_count = torch.cuda._lazy_init = opened
driver.CudaDriver.is_active = driver.CudaDriver.__init__ = opened
loads = ctypes.CDLL.__init__
ctypes.CDLL.__init__ = lambda self, name, *rest, **more: (
    opened() if "libcuda" in str(name) or "nvidia-ml" in str(name) else loads(self, name, *rest, **more)
)
list(template.imported(template.KIND).warm())
print("warm")
"""


def test_the_template_asks_for_no_card() -> None:
    done = subprocess.run(
        (sys.executable, "-c", CARDLESS), capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert done.stdout == "warm\n", done.stderr
