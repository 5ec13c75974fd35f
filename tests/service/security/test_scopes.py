"""Scopes are words that stay as they are: tokens in archives hold them."""

from service.security.scopes import EVERY_SCOPE, Scope, permitted


def test_the_words_are_these() -> None:
    assert [scope.value for scope in Scope] == ["read", "submit", "steer", "worker", "admin"]
    assert frozenset(Scope) == EVERY_SCOPE


def test_an_administrator_may_read_and_no_other_scope_includes_one() -> None:
    assert permitted(["admin"]) == {Scope.ADMIN, Scope.READ}
    for scope in set(Scope) - {Scope.ADMIN}:
        assert permitted([scope.value]) == {scope}
    assert permitted([]) == frozenset() == permitted(["fly"])
    assert permitted(list(EVERY_SCOPE)) == EVERY_SCOPE
