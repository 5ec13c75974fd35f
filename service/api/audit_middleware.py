"""Middleware that writes the audit log: all requests that change something or are refused."""

from datetime import UTC, datetime

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archive.errors import ArchiveError
from archive.records import NewAuditRecord
from service.api.csrf import SAFE
from service.security.redaction import redact

REFUSED = frozenset({401, 403})
"""Statuses of refused requests."""
TOO_MANY = 429
"""Status of requests without an entry: a flood of requests must not become a flood of entries."""
MOST_CHARS = 500
"""Maximum length of a recorded path."""

log = structlog.get_logger(__name__)


class AuditRecorder:
    """Middleware that records caller, request, address and status before the response is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on all requests."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                await _record(Request(scope), message["status"])
            await send(message)

        await self._app(scope, receive, send_recorded)


async def _record(request: Request, status: int) -> None:
    state = request.scope["state"]
    caller = state.get("caller")
    refused = status in REFUSED or "refusal" in state
    changes = caller is not None and request.method not in SAFE and status != TOO_MANY
    if state.get("unrecorded") or not (changes or refused):
        return
    entry = NewAuditRecord(
        at=datetime.now(UTC),
        token=caller.token if caller else None,
        caller=caller.name if caller else "",
        address=request.client.host if request.client else "",
        action=redact(f"{request.method} {_template(request)}")[:MOST_CHARS],
        target=redact(request.scope["path"])[:MOST_CHARS],
        status=status,
        detail=state.get("refusal", ""),
    )
    try:
        await request.app.state.coordinator.store.audit.add(entry)
    except ArchiveError as error:
        # The change is already made, so only the log can still keep the entry.
        log.error("audit entry not kept", reason=str(error), **vars(entry))


def _template(request: Request) -> str:
    """Return the path with parameter names in place of their values, as routes are documented."""
    names = {str(value): f"{{{name}}}" for name, value in request.path_params.items()}
    return "/".join(names.get(part, part) for part in request.scope["path"].split("/"))
