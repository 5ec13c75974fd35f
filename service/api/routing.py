"""Every route at its address. A resource is a file beside this one with a `router`, and a line here."""

from fastapi import APIRouter

from service.api import (
    VERSION_PREFIX,
    archives,
    audit,
    axis_statistics,
    candidates,
    controls,
    event_stream,
    exports,
    health,
    knowledge,
    llm_stats,
    operators,
    prompts,
    searches,
    sessions,
    tokens,
    workers,
)


def routes() -> APIRouter:
    """Every route of the service, at its address."""
    everything = APIRouter()
    for resource in (
        searches,
        controls,
        archives,
        axis_statistics,
        exports,
        candidates,
        event_stream,
        knowledge,
        operators,
        workers,
        prompts,
        llm_stats,
        tokens,
        audit,
    ):
        everything.include_router(resource.router, prefix=VERSION_PREFIX)
    everything.include_router(sessions.router)
    everything.include_router(health.router)
    return everything
