"""Messages to and from an executor process, one JSON object per line.

It receives jobs and hints at later jobs. It sends that it is ready, a report, or that its machine failed.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from workers.protocol.base import WireModel
from workers.protocol.job import Job
from workers.protocol.plan import Bundle
from workers.protocol.report import Report, TraceReport


class ExecutorReady(WireModel):
    """The first line: the bench is warm and takes jobs.

    Attributes:
        jail: What its jail can provide on this machine, such as `user+mount+pid+net`.
        versions: Of everything that influences a figure, by name.
    """

    kind: Literal["ready"] = "ready"
    jail: str
    versions: dict[str, str] = {}


class ExecutorFailure(WireModel):
    """Our machine failed, not the candidate; `transient` says whether another try may succeed."""

    kind: Literal["failure"] = "failure"
    error: str
    transient: bool


class ExecutorForesight(WireModel):
    """To a bench: this bundle is in the job after the next, so that what it needs can be prepared. Not answered."""

    kind: Literal["foresight"] = "foresight"
    bundle: Bundle


Message = Annotated[Job | ExecutorForesight, Field(discriminator="kind")]
MESSAGE: TypeAdapter[Job | ExecutorForesight] = TypeAdapter(Message, config=WireModel.model_config)

Answer = Annotated[ExecutorReady | ExecutorFailure | TraceReport | Report, Field(discriminator="kind")]
ANSWER: TypeAdapter[ExecutorReady | ExecutorFailure | TraceReport | Report] = TypeAdapter(
    Answer, config=WireModel.model_config
)
