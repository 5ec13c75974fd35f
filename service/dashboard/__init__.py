"""The dashboard: pages for people, beside the API for programs.

A page is a frozen dataclass that a loader fills from the archive and a template renders. Its live parts are fragments.
The same templates render a fragment for the page and for its stream of updates.
"""

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.dashboard import (
    ancestry,
    candidates,
    compare,
    controls,
    interface,
    operators,
    prompts,
    search_log,
    searches,
    shapes,
    tokens,
    workers,
)
from service.dashboard.rendering import STATIC_DIR, STATIC_PATH
from service.dashboard.routing import with_error_pages

PARTS = (
    searches,
    shapes,
    search_log,
    ancestry,
    controls,
    candidates,
    compare,
    operators,
    workers,
    prompts,
    tokens,
    interface,
)
"""Modules with pages, each with a `router`."""


class _ImmutableFiles(StaticFiles):
    """Static files under an address that changes with their content, so that a browser loads each once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, cacheable for a year."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def install_pages(app: FastAPI) -> None:
    """Add all pages and their static files to an app."""
    for part in PARTS:
        app.include_router(part.router)
    for kind in (HTTPException, Exception):
        app.add_exception_handler(kind, with_error_pages(app.exception_handlers[kind]))
    app.mount(STATIC_PATH, GZipMiddleware(_ImmutableFiles(directory=STATIC_DIR)))


__all__ = ["PARTS", "install_pages"]
