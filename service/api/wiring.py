"""What routes are handed: the coordinator, and ids that can only be ids."""

from typing import Annotated

from fastapi import Depends, Path, Request

from archive.records import Search
from service.api.paging import ID
from service.coordinator import Coordinator

Id = Annotated[str, Path(pattern=f"^{ID.pattern}$", description="A UUIDv7.")]


def coordinator_of(request: Request) -> Coordinator:
    """The running coordinator; the app's lifespan put it there."""
    running: Coordinator = request.app.state.coordinator
    return running


Running = Annotated[Coordinator, Depends(coordinator_of)]


async def search_of(id: Id, running: Running) -> Search:
    """The search that a path names.

    Raises:
        NotFound: If there is no such search.
    """
    return await running.store.searches.get(id)


Named = Annotated[Search, Depends(search_of)]
