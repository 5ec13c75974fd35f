"""Logs of a worker's processes: on standard error, in the form and from the severity that the service's settings say.

Every line about a job carries the same ids as the service's own lines about it: `job`, `search`, `candidate`.
"""

import logging
import sys
from collections.abc import Mapping

import structlog

from workers.protocol import ExecutorTask, ProfileJob

LEVELS = ("debug", "info", "warning", "error")
JSON, LEVEL = "REEF_LOG_JSON", "REEF_LOG_LEVEL"
"""Environment variables for logs, here and in the service."""


def configure(environment: Mapping[str, str], **ids: str) -> None:
    """Log as the environment says; what it says wrong is taken for the default.

    Args:
        environment: With `REEF_LOG_JSON` and `REEF_LOG_LEVEL`, if they are not as usual.
        ids: Of this process, put on every line.
    """
    said = environment.get(LEVEL, "").lower()
    level = (said if said in LEVELS else "info").upper()
    as_json = environment.get(JSON, "").lower() in ("1", "true", "yes", "on")
    structlog.contextvars.bind_contextvars(**ids)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers(as_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def renderers(as_json: bool) -> list[structlog.types.Processor]:
    """Return the renderers of a log line. Tracebacks show no values of variables, which may be secrets."""
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]


def ids_of(job: ExecutorTask) -> dict[str, str | None]:
    """Return the ids that identify a job in every log; a profile belongs to no search."""
    if isinstance(job, ProfileJob):
        return {"job": job.id, "search": None, "candidate": None}
    return {"job": job.id, "search": job.search, "candidate": job.candidate}
