"""REST under `/api/v1`, with health and metrics beside it. One file a resource; `docs/rest.md` lists the routes."""

from fastapi import APIRouter

from service.api import archives, candidates, health, operators, searches, watching, workers

VERSION_PREFIX = "/api/v1"


def routes() -> APIRouter:
    """Every route of the service, at its address."""
    everything = APIRouter()
    for resource in (searches, archives, candidates, watching, operators, workers):
        everything.include_router(resource.router, prefix=VERSION_PREFIX)
    everything.include_router(health.router)
    return everything


__all__ = ["VERSION_PREFIX", "routes"]
