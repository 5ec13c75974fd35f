"""The audit log over REST: newest first, in pages, of one token if asked."""

import pytest

from kernelreef.models import AuditEntry
from service.api.paging import Page
from service.security.authentication import issue
from service.security.scopes import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_entries_come_newest_first_in_pages(client) -> None:
    for name in "abc":
        await client.post("/tokens", json={"name": name, "scopes": ["read"]})
    first = Page[AuditEntry].model_validate((await client.get("/audit", params={"limit": 2})).json())
    rest = Page[AuditEntry].model_validate((await client.get("/audit", params={"cursor": first.next})).json())
    found = [*first.items, *rest.items]
    assert [entry.seq for entry in found] == sorted((entry.seq for entry in found), reverse=True)
    assert {entry.action for entry in found[:3]} == {"POST /api/v1/tokens"}
    assert found[0].status == 201


async def test_entries_of_one_token(client, service) -> None:
    token, text = await issue(service.coordinator.store, "reader", {Scope.READ})
    await client.delete(f"/tokens/{token.id}", headers={"Authorization": f"Bearer {text}"})
    (entry,) = (await client.get("/audit", params={"token": token.id})).json()["items"]
    assert (entry["caller"], entry["status"], entry["action"]) == ("reader", 403, "DELETE /api/v1/tokens/{id}")
    assert text not in str(entry)


@pytest.mark.parametrize("query", [{"token": "x"}, {"cursor": "x"}, {"cursor": "WyJ4Il0"}, {"limit": 0}])
async def test_a_question_that_cannot_be_right_is_refused(client, query) -> None:
    assert (await client.get("/audit", params=query)).status_code == 422


async def test_nothing_changes_an_entry(client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await client.request(method, "/audit")).status_code == 405
