"""Every route at its address. A resource is a file beside this one with a `router`, and a line here."""

from fastapi import APIRouter

from service.api import (
    VERSION_PREFIX,
    archives,
    audit,
    candidates,
    census,
    exports,
    health,
    knowledge,
    models,
    operators,
    prompts,
    searches,
    sessions,
    steering,
    tokens,
    watching,
    workers,
)


def routes() -> APIRouter:
    """Every route of the service, at its address."""
    everything = APIRouter()
    for resource in (
        searches,
        steering,
        archives,
        census,
        exports,
        candidates,
        watching,
        knowledge,
        operators,
        workers,
        prompts,
        models,
        tokens,
        audit,
    ):
        everything.include_router(resource.router, prefix=VERSION_PREFIX)
    everything.include_router(sessions.router)
    everything.include_router(health.router)
    return everything
