"""A bench as a process, and lines for it."""

import os
import subprocess
import sys
from pathlib import Path

from workers.protocol import ANSWER, Answer

ROOT = Path(__file__).parents[3]


def line(job) -> bytes:
    return job.model_dump_json().encode() + b"\n"


class Process:
    """A bench as `python -m workers bench` starts it."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-m", "workers", "bench", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **environment},
        )

    def ask(self, text: bytes) -> Answer:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> Answer:
        assert self.process.stdout is not None
        return ANSWER.validate_json(self.process.stdout.readline())

    def end(self) -> int:
        self.process.communicate()
        return self.process.returncode
