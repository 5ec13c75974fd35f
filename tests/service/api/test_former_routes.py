"""Former addresses lead to the current routes, and say that they are former ones."""

import httpx
import pytest

from service.api.former_routes import current_path


@pytest.mark.parametrize(
    ("former", "current"),
    [
        ("/api/v1/workers/w/standing", "/api/v1/workers/w/status"),
        ("/api/v1/operators/gate/gate", "/api/v1/operators/gate/mutation-report"),
        ("/api/v1/backends/manual/unpark", "/api/v1/backends/manual/enable"),
        ("/api/v1/workers/w/status", None),
        ("/api/v1/operators/gate", None),
        ("/workers/w/standing", None),
    ],
)
def test_a_former_path_has_a_current_one(former: str, current: str | None) -> None:
    assert current_path(former) == current


async def test_a_former_address_answers_as_the_current_one_and_says_which_that_is(client: httpx.AsyncClient) -> None:
    former, current = [await client.post(f"/backends/manual/{name}") for name in ("unpark", "enable")]
    assert (former.status_code, former.json()) == (current.status_code, current.json())
    assert former.headers["deprecation"] == "true"
    assert former.headers["link"] == '</api/v1/backends/manual/enable>; rel="successor-version"'
    assert "deprecation" not in current.headers
