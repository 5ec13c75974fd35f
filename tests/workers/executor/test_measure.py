"""The bench that measures, as a process: answers on standard output and nothing else there."""

import os
import subprocess
import sys
from pathlib import Path

from tests.workers.executor.process import ROOT, Process, line
from tests.workers.queue.samples import DEVICE, trace_job
from workers.protocol import ANSWER, ExecutorFailure, ExecutorReady

CHATTER = """
import os, sys
os.write(1, b"a library's chatter at import\\n")
"""


def test_a_device_that_is_not_here_is_answered_and_only_answers_reach_standard_output(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CHATTER)
    start = "import sys; from workers.main import main; main(sys.argv[1:])"
    process = subprocess.run(
        (sys.executable, "-c", start, "bench", "measure", "--device", "mi300x"),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    first, *rest = process.stdout.splitlines()
    assert first == b"a library's chatter at import", "of the first process, before standard output is set aside"
    [failure] = [ANSWER.validate_json(each) for each in rest]
    assert isinstance(failure, ExecutorFailure) and "ToolMissing" in failure.error and not failure.transient
    assert process.returncode == 1 and b"chatter" in process.stderr


def test_a_card_that_is_not_here_is_answered(tmp_path: Path) -> None:
    process = Process("measure", "--device", "a100", "--card", "cuda:63", "--data", str(tmp_path))
    failure = process.hear()
    assert isinstance(failure, ExecutorFailure) and process.end() == 1


def test_a_model_bench_takes_no_trace_jobs() -> None:
    process = Process("measure", "--device", DEVICE)
    assert isinstance(process.hear(), ExecutorReady)
    failure = process.ask(line(trace_job("job-1")))
    assert isinstance(failure, ExecutorFailure) and "cannot trace" in failure.error
    assert process.end() == 0
