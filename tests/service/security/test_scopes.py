"""Scopes are words that stay as they are: tokens in archives hold them."""

from service.security.scopes import EVERY_SCOPE, Scope


def test_the_words_are_these() -> None:
    assert [scope.value for scope in Scope] == ["read", "submit", "steer", "worker", "admin"]
    assert frozenset(Scope) == EVERY_SCOPE
