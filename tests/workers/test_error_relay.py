"""What a process complains of reaches whoever looks on, and its last line is known when it has ended."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from workers.error_relay import LINE_CHARS, ErrorRelay


@pytest.fixture
def relay() -> Iterator[ErrorRelay]:
    yield ErrorRelay()


def end(relay: ErrorRelay, program: str) -> None:
    with subprocess.Popen((sys.executable, "-c", program), stderr=relay.descriptor):
        relay.started()


def test_lines_are_passed_on_and_the_last_one_is_kept(relay: ErrorRelay, capfd: pytest.CaptureFixture[str]) -> None:
    end(relay, "import sys\nsys.stderr.write('first\\nlast \\x1b[31mwords\\n\\n')")
    assert relay.last_line() == "last  [31mwords"
    assert capfd.readouterr().err == "first\nlast \x1b[31mwords\n\n"


def test_a_line_that_is_cut_off_counts(relay: ErrorRelay, capfd: pytest.CaptureFixture[str]) -> None:
    end(relay, "import os\nos.write(2, b'out of memory')\nos.abort()")
    assert relay.last_line() == "out of memory"
    assert capfd.readouterr().err == "out of memory"


def test_a_process_that_says_nothing_has_no_last_line(relay: ErrorRelay) -> None:
    end(relay, "pass")
    assert relay.last_line() == ""


def test_a_flood_blocks_nobody_and_a_long_line_is_cut(relay: ErrorRelay, capfd: pytest.CaptureFixture[str]) -> None:
    end(relay, "import sys\nsys.stderr.write('x\\n' * 100_000 + 'y' * 10_000)")
    assert relay.last_line() == "y" * LINE_CHARS
    assert len(capfd.readouterr().err) == 210_000
