"""An app with its doors locked, over the coordinator of another one."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from archive.store import Store
from service.app import create_app
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.allowed_hosts import AllowedHosts
from service.security.authentication import issue
from service.security.scopes import Scope
from service.settings import Settings

ALWAYS = AccessPolicy(LoginPolicy.ALWAYS, AllowedHosts(frozenset({"reef.example"})))


@asynccontextmanager
async def guarded(
    coordinator: Any, doors: AccessPolicy = ALWAYS, scheme: str = "http"
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app that needs a login, with nobody logged in."""
    app = create_app(Settings(), doors)
    app.state.coordinator = coordinator
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://reef.example") as client:
        yield client


async def bearer(store: Store, scopes: Iterable[Scope] = tuple(Scope), **options: Any) -> dict[str, str]:
    """Headers of a program with a new token."""
    _, text = await issue(store, "program", set(scopes), **options)
    return {"Authorization": f"Bearer {text}"}
