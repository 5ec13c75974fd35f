"""The server's protocol with a deadline for the head of each request.

uvicorn limits how long a connection may be idle after an answer, but not how long the first bytes, or the rest of a
head that has begun, may take: whoever opens connections and says nothing would keep them for ever.
"""

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose next request does not begin, or whose head does not end, in time."""

    longest_s: ClassVar[float] = 10.0
    """Seconds for a head: one packet, or a few over a bad line; a TLS handshake has its own limit before."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on if this was a part of a head, and no longer if it was its end."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait()
        else:
            self._wait_no_longer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.longest_s, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


def server_options(most_head_bytes: int) -> dict[str, Any]:
    """What the server is told of requests: this protocol, the largest head, and that no other protocol is spoken."""
    return {"http": HeaderTimeoutProtocol, "h11_max_incomplete_event_size": most_head_bytes, "ws": "none"}
