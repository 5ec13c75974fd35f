import sys

from workers import sandbox
from workers.sandbox import SandboxCommand, SandboxEnding, SandboxLimits

LIMITS = SandboxLimits(wall_s=30.0, cpu_s=20.0, memory_bytes=2**30, reply_bytes=2**20, processes=4)


def python(program, files=(), collect=(), **limits):
    argv = [sys.executable, "-c", program]
    return sandbox.run_command(argv, dict(files), list(collect), SandboxLimits(**{**LIMITS.__dict__, **limits}))


def test_files_go_in_and_come_out():
    result = python("open('out', 'wb').write(open('in', 'rb').read()[::-1])", {"in": b"abc"}, ["out", "absent"])
    assert (result.ending, result.status, result.files) == (SandboxEnding.RETURNED, 0, {"out": b"cba"})


def test_status_and_streams_are_told():
    result = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (result.status, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


def test_streams_are_cut():
    result = python("print('x' * 10**6)")
    assert result.status == 0
    assert len(result.stdout) == 64 * 1024


def test_a_signal_is_a_negative_status():
    assert python("import os; os.abort()").status < 0


def test_a_command_that_does_not_end_is_killed():
    result = python("while True: pass", wall_s=1.0)
    assert (result.ending, result.status) == (SandboxEnding.TIMEOUT, None)
    assert "did not end" in result.detail


def test_a_program_that_is_missing_is_told():
    result = sandbox.run_command(["/nonexistent/ptxas"], {}, [], LIMITS)
    assert result.ending is SandboxEnding.RAISED
    assert "FileNotFoundError" in result.detail


def test_files_that_are_too_long_to_bring_back_flood():
    assert python("open('out', 'wb').write(bytes(2 * 2**20))", (), ["out"]).ending is SandboxEnding.FLOODED


def test_a_program_lies_at_the_same_addresses_every_time():
    program = "print(id(object()), open('/proc/self/stat').read().split()[27], __import__('sys').argv[0])"
    assert len({python(program).stdout for _ in range(4)}) == 1


def test_a_program_has_its_own_name():
    result = sandbox.run_command(["/bin/sh", "-c", "echo $0 $HOME"], {}, [], LIMITS)
    assert result.stdout == b"./.tools/sh .\n"


def in_turn(*programs, wall_s=30.0):
    """Shell programs in one sandbox; each may bring back the file `out`."""
    commands = [SandboxCommand(["/bin/sh", "-c", program], {"in": b"input"}, ["out"]) for program in programs]
    return sandbox.run_commands(commands, SandboxLimits(**{**LIMITS.__dict__, "wall_s": wall_s}))


def test_programs_run_in_turn_and_each_finds_its_own_files_alone():
    results = in_turn("cp in out; echo more >> in", "ls; cat in", "cp in out")
    assert [result.status for result in results] == [0, 0, 0]
    assert results[1].stdout == b"in\ninput"
    assert [result.files for result in results] == [{"out": b"input"}, {}, {"out": b"input"}]


def test_nothing_runs_behind_a_program_that_fails():
    results = in_turn("cp in out", "cp in out; exit 3", "cp in out")
    assert [result.status for result in results] == [0, 3]


def test_all_programs_together_have_a_limit():
    (result,) = in_turn("sleep 0.7", "sleep 0.7", "sleep 0.7", wall_s=1.0)
    assert (result.ending, result.status) == (SandboxEnding.TIMEOUT, None)
