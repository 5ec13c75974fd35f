"""Who needs a login, by the address that is listened on."""

import pytest

from service.errors import InvalidInput
from service.security.access_policy import AccessPolicy, LoginPolicy, doors_for


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_one_once_there_are_tokens(host: str) -> None:
    doors = doors_for(host, (), 50)
    assert (doors.login, doors.requests_per_s) == (LoginPolicy.ONCE_THERE_ARE_TOKENS, 50)
    assert not doors.hosts.answers("192.0.2.7")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "reef.example"])
def test_everything_else_always_needs_one(host: str) -> None:
    doors = doors_for(host, (), 50)
    assert doors.login is LoginPolicy.ALWAYS
    assert doors.hosts.answers("192.0.2.7")
    assert doors.hosts.answers("reef.example") == (host == "reef.example")


def test_a_name_that_is_allowed_says_that_others_come_in() -> None:
    doors = doors_for("127.0.0.1", ("Reef.example",), 50)
    assert doors.login is LoginPolicy.ALWAYS
    assert doors.hosts.answers("reef.example")
    assert not doors.hosts.answers("192.0.2.7")


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(InvalidInput, match="127"):
        doors_for("", (), 50)


def test_within_a_program_nobody_is_asked() -> None:
    assert AccessPolicy().login is LoginPolicy.NEVER
    assert not AccessPolicy().hosts.answers("192.0.2.7")
