"""Passes of agents: a token of one search with the least scopes, for as long as the agent works."""

from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from archive.records import NewSearch
from archive.store import Store
from service.discovery import discoverable
from service.errors import Unauthenticated
from service.llm import PermanentFailure
from service.llm_gateway.agent_passes import AgentPasses
from service.security.authentication import Authentication, issue, utc_now
from service.security.scopes import Scope, SearchGrant
from tests.archive.samples import new_exchange
from tests.service import records

EXCHANGE = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4"
SEARCH = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f5"
URL = "http://127.0.0.1:8700"


async def kept(store: Store) -> str:
    """A search with the exchange of an agent in it; its id."""
    operator = records.OPERATOR
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    template = records.search()
    given = {each.name: getattr(template, each.name) for each in fields(NewSearch)}
    search = await store.searches.create(NewSearch(**{**given, "id": SEARCH}))
    new = new_exchange(search.id, 3, id=EXCHANGE, backend="robot", strategy="agent", template="agent 1")
    await store.exchanges.open(new)
    return search.id


async def test_a_pass_is_for_one_search_and_ends_with_the_agent(store: Store, tmp_path: Path) -> None:
    search = await kept(store)
    await issue(store, "me", (Scope.READ,))
    clock = [utc_now()]
    authentication = Authentication(store, lambda: clock[0])
    with discoverable(tmp_path, URL):
        async with AgentPasses(store, tmp_path).admit(EXCHANGE, 7, 60.0) as admitted:
            assert (admitted.url, admitted.search) == (URL, search)
            assert admitted.token not in repr(admitted)
            caller = await authentication.by_token(admitted.token)
            assert caller.scopes == {Scope.READ, Scope.PROPOSE}
            assert caller.grant == SearchGrant(search, EXCHANGE, 7)
            clock[0] += timedelta(seconds=61)
            with pytest.raises(Unauthenticated):
                await authentication.by_token(admitted.token)
            clock[0] -= timedelta(seconds=61)
        with pytest.raises(Unauthenticated):
            await authentication.by_token(admitted.token)


async def test_no_agent_is_let_in_where_nobody_needs_a_token(store: Store, tmp_path: Path) -> None:
    await kept(store)
    with discoverable(tmp_path, URL), pytest.raises(PermanentFailure, match="reef token create"):
        async with AgentPasses(store, tmp_path).admit(EXCHANGE, 7, 60.0):
            raise AssertionError("it was let in")
    assert not await store.tokens.is_there_any()


async def test_without_a_service_there_is_nothing_to_be_let_into(store: Store, tmp_path: Path) -> None:
    await kept(store)
    await issue(store, "me", (Scope.READ,))
    with pytest.raises(PermanentFailure, match="reef serve"):
        async with AgentPasses(store, tmp_path).admit(EXCHANGE, 7, 60.0):
            raise AssertionError("it was let in")
