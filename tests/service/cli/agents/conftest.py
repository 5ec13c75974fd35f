"""A service that asks for tokens, with a search that takes kernels, and clients that reach it inside this process."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from uuid6 import uuid7

from archive.records import NewSearch
from archive.store import Store
from kernelreef import AsyncReef
from kernelreef.in_process import InProcessTransport
from service.app import create_app
from service.embedded import EmbeddedServer
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.authentication import issue
from service.security.scopes import Scope, SearchGrant
from service.settings import Settings
from tests.service.api.conftest import fill


@dataclass(frozen=True)
class Guarded:
    """A service, the id of a search in it, the id of another, and candidates of the first."""

    store: Store
    connect: Callable[[str | None], AsyncReef]
    mine: str
    others: str
    best: str
    failed: str

    async def token(self, *scopes: Scope, search: str | None = None, **options: object) -> str:
        grant = SearchGrant(search) if search else None
        return (await issue(self.store, "agent", scopes, grant=grant, **options))[1]  # type: ignore[arg-type]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("agents")
    async with EmbeddedServer(folder / "redis") as server:
        settings = Settings(data_dir=folder, redis_url=server.url, local_workers=0)
        app = create_app(settings, AccessPolicy(LoginPolicy.ONCE_THERE_ARE_TOKENS))
        async with app.router.lifespan_context(app):
            store: Store = app.state.coordinator.store
            first = await fill(store)
            new = {name: getattr(first.search, name) for name in NewSearch.__dataclass_fields__}
            other = await store.searches.create(NewSearch(**{**new, "id": str(uuid7())}))

            def connect(token: str | None) -> AsyncReef:
                transport = InProcessTransport(app)
                return AsyncReef("http://127.0.0.1", token or "", transport=transport, attempts=1)

            yield Guarded(store, connect, first.search.id, other.id, first.best, first.failed)
