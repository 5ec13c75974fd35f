"""What the parent makes of replies that a hostile child could send."""

import pytest

from tests.workers.devices.kernels import PLAIN, graphs, job_for
from workers import sandbox
from workers.devices.interpretation import InterpretationUnusable, _explain, interpret
from workers.devices.selection import select_cases
from workers.inputs import DRAWS, draw
from workers.interpreter import InterpretReply, MeteredTraffic, pack


def forged(function, sampled=()):
    """Let the jail run another function than the interpreter, and read what it says."""
    job = job_for(PLAIN)
    cases = select_cases(job.bundle, graphs("softmax"), job.operator)[:1]
    drawn = [[draw(job.operator, case.plan.shape, name, 0) for name in case.draws] for case in cases]
    return interpret(job, cases, drawn, [job.bundle.benchmarks[number] for number in sampled], 10.0, function)


DONE = MeteredTraffic(moved_bytes=4)
GOOD = [b"\0\0"] * (2 * len(DRAWS))

FORGED = {
    "no frame": lambda request: b"correct",
    "no results": lambda request: pack(InterpretReply(finished=(DONE,)), []),
    "too many results": lambda request: pack(InterpretReply(finished=(DONE,)), [*GOOD, b""]),
    "results of another size": lambda request: pack(InterpretReply(finished=(DONE,)), [b"\0"] * len(GOOD)),
    "too many plans": lambda request: pack(InterpretReply(finished=(DONE,) * 2), GOOD),
    "no plan and no reason": lambda request: pack(InterpretReply(), []),
    "a reason though all is done": lambda request: pack(
        InterpretReply(finished=(DONE,), outcome="not_interpretable"), GOOD
    ),
    "samples nobody asked for": lambda request: pack(InterpretReply(finished=(DONE,), sampled=((DONE,),)), GOOD),
}


@pytest.mark.parametrize("name", FORGED)
def test_replies_that_make_no_sense_are_unusable(name):
    with pytest.raises(InterpretationUnusable, match="is invalid"):
        forged(FORGED[name])


def test_samples_are_of_as_many_launches_as_the_plan_has():
    def reply(*launches):
        return lambda request: pack(InterpretReply(finished=(DONE,), sampled=(launches,)), GOOD)

    assert forged(reply(DONE), sampled=[0]).reply.sampled == ((DONE,),)
    for launches in ((), (DONE, DONE)):
        with pytest.raises(InterpretationUnusable, match="is invalid"):
            forged(reply(*launches), sampled=[0])


def test_a_plausible_reply_is_read():
    result = forged(lambda request: pack(InterpretReply(finished=(DONE,)), GOOD))
    assert [len(row) for row in result.results] == [len(DRAWS)]
    assert result.results[0][0].outputs[0].shape == (1, 1)


def crash(request: bytes) -> bytes:
    raise LookupError("a tile of 2**40 elements")


def test_a_child_that_dies_says_what_it_said_last():
    with pytest.raises(InterpretationUnusable, match=r"2\*\*40 elements"):
        forged(crash)


def test_endings_are_explained():
    timeout = sandbox.SandboxResult(sandbox.SandboxEnding.TIMEOUT, b"", "", 1.0)
    assert "did not end within 3 s" in _explain(timeout, 3.0)
    crashed = sandbox.SandboxResult(sandbox.SandboxEnding.CRASHED, b"", "", 1.0)
    assert "crashed" in _explain(crashed, 3.0)
