"""Scopes are words that stay as they are: tokens in archives hold them."""

import pytest

from service.security.scopes import EVERY_SCOPE, Scope, SearchGrant, grant_of, permitted


def test_the_words_are_these() -> None:
    assert [scope.value for scope in Scope] == ["read", "submit", "steer", "propose", "worker", "admin"]
    assert frozenset(Scope) == EVERY_SCOPE


def test_an_administrator_may_read_whoever_steers_propose_and_no_other_scope_includes_one() -> None:
    assert permitted(["admin"]) == {Scope.ADMIN, Scope.READ}
    assert permitted(["steer"]) == {Scope.STEER, Scope.PROPOSE}
    for scope in set(Scope) - {Scope.ADMIN, Scope.STEER}:
        assert permitted([scope.value]) == {scope}
    assert permitted([]) == frozenset() == permitted(["fly"])
    assert permitted(list(EVERY_SCOPE)) == EVERY_SCOPE


SEARCH, OTHER = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4", "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f5"


@pytest.mark.parametrize("grant", [SearchGrant(SEARCH), SearchGrant(SEARCH, OTHER, 20)])
def test_a_token_of_one_search_has_its_scopes_there_only(grant: SearchGrant) -> None:
    listed = [grant.write(Scope.READ), grant.write(Scope.PROPOSE)]
    assert grant_of(listed) == grant
    assert permitted(listed) == {Scope.READ, Scope.PROPOSE}
    assert not any(text in {scope.value for scope in Scope} for text in listed), "an older release permits nothing"


def test_a_restriction_is_never_widened() -> None:
    mine, others = SearchGrant(SEARCH), SearchGrant(OTHER)
    assert grant_of(["read", "steer"]) is None
    assert permitted([mine.write(Scope.READ), "admin", "submit", "steer"]) == {Scope.READ}
    assert permitted([mine.write(Scope.READ), others.write(Scope.STEER)]) == {Scope.READ}
    assert permitted([f"admin@{SEARCH}", f"submit@{SEARCH}", f"worker@{SEARCH}"]) == frozenset()
    assert permitted([f"read@{SEARCH[:8]}", f"read@{SEARCH}/x/9", "read@"]) == frozenset()
