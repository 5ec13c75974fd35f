"""Logging: the service's and the libraries' logs, in one form, on standard error."""

import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from service.security.redaction import redact
from service.settings import Settings

CHATTY = ("alembic", "httpx")
"""Libraries that log debug details at `info`."""
TELLTALE = ("aiosqlite",)
"""Libraries that log every value at `debug`; a value may be a user's source."""
LOG_FILE = "reef.log"
"""Name of the log file of commands in the data folder."""


class CommandLog(logging.FileHandler):
    """Log file of commands that run no service; nothing is written if the folder does not exist or is read-only."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / LOG_FILE, encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; a command must not fail because of its log."""
        with suppress(OSError):
            super().emit(record)


def configure(settings: Settings, *, quiet: bool = False) -> None:
    """Configure logging. Tracebacks never show the values of variables, which may be secrets.

    Args:
        settings: Settings from the environment.
        quiet: True to log warnings and errors into a file of the data folder, unless a log level is set.
    """
    quiet = quiet and "log_level" not in settings.model_fields_set
    level = logging.WARNING if quiet else getattr(logging, settings.log_level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = CommandLog(settings.data_dir) if quiet else logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter
    colours = not quiet and sys.stderr.isatty()
    last: list[Any] = [
        formatter.remove_processors_meta,
        *_renderers(settings.log_json, colours=colours),
        _mask,
    ]
    handler.setFormatter(formatter(foreign_pre_chain=shared, processors=last))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING) if level > logging.DEBUG else level)
    for name in TELLTALE:
        logging.getLogger(name).setLevel(max(level, logging.INFO))


def _mask(logger: object, method: str, line: str) -> str:
    return redact(line)


def _renderers(as_json: bool, *, colours: bool) -> list[Any]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]
