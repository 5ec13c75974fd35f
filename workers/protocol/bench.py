"""Messages to and from an executor process, one JSON object per line.

It receives jobs and hints at later jobs. It sends a greeting, reports, and failures of its machine.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from workers.protocol.base import WireModel
from workers.protocol.job import Job
from workers.protocol.plan import Bundle
from workers.protocol.profile import ProfileJob, ProfileReport
from workers.protocol.report import Report, TraceReport


class ExecutorReady(WireModel):
    """The first line: the executor is warm and takes jobs.

    Attributes:
        jail: Layers of its sandbox on this machine, such as `user+mount+pid+net`.
        versions: Versions of everything that influences a figure, by name.
    """

    kind: Literal["ready"] = "ready"
    jail: str
    versions: dict[str, str] = {}


class ExecutorFailure(WireModel):
    """A failure of our machine, not of the candidate.

    Attributes:
        transient: True if another attempt may succeed.
        waits: True if the work waits for something that others hold, and nothing failed.
    """

    kind: Literal["failure"] = "failure"
    error: str
    transient: bool
    waits: bool = False


class ExecutorForesight(WireModel):
    """A hint to an executor: this bundle is in a job that comes later, so it can be prepared. It gets no answer.

    Attributes:
        job: Id of the job.
        bundle: The bundle.
    """

    kind: Literal["foresight"] = "foresight"
    job: str
    bundle: Bundle


class PreparedQuery(WireModel):
    """A question to an idle executor: which of these foreseen jobs need not wait for their preparation?"""

    kind: Literal["which"] = "which"
    jobs: tuple[str, ...]


class PreparedJobs(WireModel):
    """The answer: ids of the jobs that are prepared."""

    kind: Literal["prepared"] = "prepared"
    jobs: tuple[str, ...]


ExecutorTask: TypeAlias = Job | ProfileJob
"""Work for an executor: jobs of the queue, and profiles."""
Message = Annotated[ExecutorTask | ExecutorForesight | PreparedQuery, Field(discriminator="kind")]
MESSAGE: TypeAdapter[ExecutorTask | ExecutorForesight | PreparedQuery] = TypeAdapter(
    Message, config=WireModel.model_config
)

ExecutorResult: TypeAlias = TraceReport | Report | ProfileReport
Answer = Annotated[ExecutorReady | ExecutorFailure | PreparedJobs | ExecutorResult, Field(discriminator="kind")]
ANSWER: TypeAdapter[ExecutorReady | ExecutorFailure | PreparedJobs | ExecutorResult] = TypeAdapter(
    Answer, config=WireModel.model_config
)
