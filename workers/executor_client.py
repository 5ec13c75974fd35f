"""The lease loop's client of an executor process, which takes one job per line and answers each with one line."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from workers.errors import ExecutorDied, ToolMissing
from workers.line_process import LineProcess
from workers.protocol import (
    ANSWER,
    Answer,
    Bundle,
    ExecutorFailure,
    ExecutorForesight,
    ExecutorReady,
    ExecutorTask,
    WireModel,
)
from workers.safe_python import safe_environment

__all__ = ["ExecutorClient", "ExecutorDied", "executor_environment"]

FAREWELL_S = 2.0
"""Seconds that an idle executor gets to exit by itself."""
INHERITED = (
    # Paths.
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "PYTHONNOUSERSITE",
    "PYTHONPYCACHEPREFIX",
    "TRITON_CACHE_DIR",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_CACHE_PATH",
    "CUDA_MPS_PIPE_DIRECTORY",
    # Our share of the machine.
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    # Output.
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "REEF_LOG_JSON",
    "REEF_LOG_LEVEL",
)
"""Environment variables that an executor inherits, by whole names. All others are left out: it forks sandboxes, which
can read its memory, and dozens of variables change how Triton, PyTorch, CUDA and Python compile and round."""


class ExecutorClient:
    """A running executor process."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, duplex: bool = False
    ) -> None:
        """Start a process, as `LineProcess` does."""
        self._process = LineProcess(command, environment=environment, duplex=duplex)

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self._process.alive

    @property
    def is_sending(self) -> bool:
        """True if `poll` has data left to send."""
        return self._process.is_sending

    def fileno(self) -> int:
        """Return the descriptor to wait on before `poll(0)`: for reading, and for writing too while `is_sending`."""
        return self._process.fileno()

    def ready(self, timeout_s: float) -> ExecutorReady | None:
        """Wait until the executor takes jobs. Returns None if it is not ready within `timeout_s` seconds.

        Raises:
            ToolMissing: If this machine lacks a tool that the executor needs.
            ExecutorDied: If it exited, or failed in a transient way.
        """
        answer = self.poll(timeout_s)
        if answer is None or isinstance(answer, ExecutorReady):
            return answer
        self.kill()
        if isinstance(answer, ExecutorFailure) and not answer.transient:
            raise ToolMissing(answer.error)
        raise ExecutorDied(
            f"the executor did not get ready: {answer.error if isinstance(answer, ExecutorFailure) else answer.kind}"
        )

    def send(self, job: ExecutorTask) -> None:
        """Queue a job for it; `poll` sends it and returns the answer."""
        self._say(job)

    def foresee(self, bundle: Bundle) -> None:
        """Tell it which bundle a later job evaluates."""
        self._say(ExecutorForesight(bundle=bundle))

    def poll(self, timeout_s: float) -> Answer | None:
        """Send and receive for at most `timeout_s` seconds.

        Returns:
            The answer if one came, else None.

        Raises:
            ExecutorDied: If the process exited, or sent a line that is not an answer; it is killed then.
        """
        try:
            line = self._process.hear(timeout_s)
            return None if line is None else ANSWER.validate_json(line)
        except (OSError, EOFError) as error:
            self.kill()
            raise ExecutorDied(f"the executor exited with status {self._process.status}") from error
        except ValidationError as error:
            self.kill()
            raise ExecutorDied(f"the executor sent a line that is not an answer: {error}") from error

    def close(self) -> None:
        """Let an idle process exit; kill it if it does not. Idempotent."""
        self._process.close(FAREWELL_S)

    def kill(self) -> None:
        """Kill the process with its whole session. Idempotent."""
        self._process.kill()

    def _say(self, message: WireModel) -> None:
        self._process.say(message.model_dump_json().encode())


def executor_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of processes that trace, compile or evaluate: no secrets, and no influence on verdicts."""
    return safe_environment({name: environment[name] for name in INHERITED if name in environment})
