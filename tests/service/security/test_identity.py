"""Who is calling."""

from service.security.identity import LOCAL
from service.security.scopes import EVERY_SCOPE


def test_the_machines_own_user_needs_no_token_and_may_do_everything() -> None:
    assert (LOCAL.token, LOCAL.scopes) == (None, EVERY_SCOPE)
