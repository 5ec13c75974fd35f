import errno
import linecache

import pytest

from workers.protocol import REASON_CHARS, Outcome, Stage
from workers.tracer.refusal import SOURCE_NAME, TraceRefused, crash, raising_line, running_line, tidy


def run_as_candidate(source, **names):
    """Execute a text under the candidate's name; returns its globals."""
    namespace = dict(names)
    exec(compile(source, SOURCE_NAME, "exec"), namespace)
    return namespace


def test_the_running_line_is_the_candidate_s_innermost():
    source = "def inner():\n    return line()\n\n\ndef outer():\n    return inner()\n\n\nfound = outer()\n"
    assert run_as_candidate(source, line=lambda: running_line())["found"] == 2
    assert running_line() is None


def test_a_refusal_takes_the_running_line_unless_it_is_given_one():
    def refuse(line=None):
        return TraceRefused(Outcome.FORBIDDEN_OP, "no", line=line)

    found = run_as_candidate("\n\nfound = refuse(), refuse(9)\n", refuse=refuse)["found"]
    assert [item.line for item in found] == [3, 9]


def test_a_refusal_passes_the_candidate_s_own_handlers():
    def refuse():
        raise TraceRefused(Outcome.FORBIDDEN_OP, "no")

    with pytest.raises(TraceRefused):
        run_as_candidate("try:\n    refuse()\nexcept Exception:\n    pass\n", refuse=refuse)


def test_a_crash_tells_kind_message_and_line():
    with pytest.raises(KeyError) as raised:
        run_as_candidate("def f():\n    return {}['absent']\n\n\nf()\n")
    refused = crash(raised.value)
    assert (refused.outcome, refused.stage, refused.line) == (Outcome.TRACE_CRASHED, Stage.TRACE, 2)
    assert refused.reason == "KeyError: 'absent'"
    assert raising_line(raised.value) == 2
    assert raising_line(ValueError()) is None


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("assert n % 128 == 0", "AssertionError in `assert n % 128 == 0`"),
        ("assert n > 3, 'too few'", "AssertionError: too few"),
        ("raise ValueError", "ValueError in `raise ValueError`"),
        ("raise ValueError(' ')", "ValueError in `raise ValueError(' ')`"),
        (f"assert n > {'3' * 300}", f"AssertionError in `assert n > {'3' * 189}`"),
    ],
)
def test_a_crash_that_says_nothing_quotes_its_line(statement: str, reason: str, monkeypatch: pytest.MonkeyPatch):
    source = f"def f(n):\n    {statement}\n\n\nf(3)\n"
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, SOURCE_NAME, (len(source), None, lines, SOURCE_NAME))
    with pytest.raises((AssertionError, ValueError)) as raised:
        run_as_candidate(source)
    assert (crash(raised.value).reason, crash(raised.value).line) == (reason, 2)


def test_what_the_sandbox_refuses_is_said_in_words():
    assert crash(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")).reason.startswith(
        "BlockingIOError: it starts a process"
    )
    assert "may not have" in crash(PermissionError(errno.EPERM, "Operation not permitted")).reason


def test_a_crash_without_a_line_tells_its_kind():
    assert crash(AssertionError()).reason == "AssertionError"


def test_reasons_are_short_and_printable():
    assert tidy("a\x1b[31mb\nc\0") == "a [31mb\nc"
    assert len(tidy("x" * 10**5)) == REASON_CHARS
