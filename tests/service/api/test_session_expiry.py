"""A stream of events ends soon after its caller's token has."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi.responses import StreamingResponse

from service.api import session_expiry
from service.app import create_app
from service.security.authentication import issue
from service.security.scopes import Scope
from service.settings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOST = 200


async def sent(service, *, revoke_after: int | None, look_again_s: float, monkeypatch, headers: bool = True) -> int:
    """How many of up to `MOST` pieces reach a caller whose token is revoked while they come."""
    monkeypatch.setattr(session_expiry, "LOOK_AGAIN_S", look_again_s)
    store = service.coordinator.store
    token, text = await issue(store, "watcher", {Scope.READ})
    app = create_app(Settings())
    app.state.coordinator = service.coordinator

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(MOST):
            if number == revoke_after:
                await store.tokens.revoke(token.id)
            yield b"x"

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(pieces())

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.get("/stream", headers={"Authorization": f"Bearer {text}"} if headers else {})
    return len(answer.content)


async def test_a_stream_ends_with_its_token(service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent(service, revoke_after=5, look_again_s=0, monkeypatch=monkeypatch) == 5


async def test_it_goes_on_while_the_token_is_good(service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent(service, revoke_after=None, look_again_s=0, monkeypatch=monkeypatch) == MOST


async def test_the_token_is_not_looked_up_for_every_piece(service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent(service, revoke_after=5, look_again_s=60, monkeypatch=monkeypatch) == MOST


async def test_whoever_needs_no_token_is_not_asked(service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent(service, revoke_after=5, look_again_s=0, monkeypatch=monkeypatch, headers=False) == MOST
