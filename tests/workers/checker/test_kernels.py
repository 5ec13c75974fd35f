"""The kernels, executed by Triton's interpreter on host memory, agree with the same passes in torch."""

import os
import subprocess
import sys


def test_kernels_agree_with_torch():
    # A process of its own: whether Triton interprets is decided when it is imported.
    command = [sys.executable, "-m", "tests.workers.checker.interpreted"]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
