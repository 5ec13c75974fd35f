"""The lease loop's client of an executor process, which takes one job per line and answers each with one line."""

import time
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from workers.error_relay import ErrorRelay
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
    PreparedJobs,
    PreparedQuery,
    WireModel,
)

__all__ = ["ExecutorClient", "ExecutorDied"]

QUERY_S = 30.0
"""Seconds that an idle executor gets to say what it has prepared: it may be giving back the card's memory."""
FAREWELL_S = 2.0
"""Seconds that an idle executor gets to exit by itself."""


class ExecutorClient:
    """A running executor process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        duplex: bool = False,
        template: int | None = None,
    ) -> None:
        """Start a process, as `LineProcess` does."""
        self._errors = ErrorRelay()
        try:
            self._process = LineProcess(command, self._errors.descriptor, environment, duplex=duplex, template=template)
        finally:
            self._errors.started()

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

    def foresee(self, job: str, bundle: Bundle) -> None:
        """Tell it which bundle a later job evaluates."""
        self._say(ExecutorForesight(job=job, bundle=bundle))

    def prepared(self, jobs: Sequence[str]) -> tuple[str, ...]:
        """Return which foreseen jobs need not wait for their preparation. The executor must be idle.

        Raises:
            ExecutorDied: If it gives no answer.
        """
        self._say(PreparedQuery(jobs=tuple(jobs)))
        until = time.monotonic() + QUERY_S
        while time.monotonic() < until:
            answer = self.poll(until - time.monotonic())
            if isinstance(answer, PreparedJobs):
                return answer.jobs
            if answer is not None:
                break
        self.kill()
        raise ExecutorDied("the executor does not say what it has prepared")

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
            said = self._errors.last_line()
            ended = f"the executor exited with status {self._process.status}"
            raise ExecutorDied(f"{ended}: {said}" if said else ended) from error
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
