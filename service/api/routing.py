"""Registration of all routes. A resource is a file beside this one with a `router`, and a line here."""

from fastapi import APIRouter, Depends

from service.api import (
    VERSION_PREFIX,
    archives,
    audit,
    candidates,
    controls,
    descriptors,
    event_stream,
    exports,
    health,
    llm_stats,
    operators,
    prompts,
    searches,
    sessions,
    tokens,
    trajectories,
    workers,
)
from service.api.dependencies import require_known_parameters


def routes() -> APIRouter:
    """Collect all routes of the service."""
    everything = APIRouter(dependencies=[Depends(require_known_parameters)])
    for resource in (
        searches,
        controls,
        archives,
        descriptors,
        exports,
        candidates,
        event_stream,
        trajectories,
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
