"""A signal cancels a command, which may still clean up; the second signal ends it at once."""

import signal
import subprocess
import sys
import time

import pytest

from service.cli.interruption import INTERRUPTED, run_interruptibly

PROGRAM = """
import asyncio, sys
from service.cli.interruption import run_interruptibly

async def work():
    try:
        print("begun", flush=True)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cleaning", flush=True)
        await asyncio.sleep(float(sys.argv[1]))
        print("clean", flush=True)
        raise

sys.exit(run_interruptibly(work()))
"""


def _started(cleanup_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(cleanup_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_a_command_clean_up(number: signal.Signals) -> None:
    process = _started(0.1)
    process.send_signal(number)
    said, complaints = process.communicate(timeout=20)
    assert (process.returncode, said, complaints) == (INTERRUPTED, "cleaning\nclean\n", "")


def test_the_second_signal_ends_it_at_once() -> None:
    process = _started(50)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == "cleaning\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == INTERRUPTED and time.monotonic() - began < 10


def test_a_command_that_ends_by_itself_has_its_own_code() -> None:
    async def work() -> int:
        return 3

    assert run_interruptibly(work()) == 3
