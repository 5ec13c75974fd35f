"""Which names a service answers to."""

import pytest

from service.security.allowed_hosts import AllowedHosts, is_address, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", "", "localhost.example.org"])
def test_others_can_reach_anything_else(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("header", ["127.0.0.1", "127.0.0.1:8700", "localhost:8700", "LOCALHOST", "[::1]:8700"])
def test_loopback_is_always_answered(header: str) -> None:
    assert AllowedHosts().answers(header)


@pytest.mark.parametrize(
    "header",
    ["attacker.example", "attacker.example:8700", "127.0.0.1.example.org", "[::", "", "0.0.0.0", "localhost:8700:1"],
)
def test_other_names_are_not(header: str) -> None:
    assert not AllowedHosts().answers(header)


def test_allowed_names_are() -> None:
    hosts = AllowedHosts(frozenset({"reef.example"}))
    assert hosts.answers("reef.example:443") and hosts.answers("REEF.example")
    assert not hosts.answers("other.reef.example")
    assert not hosts.answers("192.0.2.7")


def test_addresses_cannot_be_pointed_elsewhere_so_they_may_be_answered() -> None:
    hosts = AllowedHosts(addresses=True)
    assert hosts.answers("192.0.2.7:8700") and hosts.answers("[2001:db8::7]:8700")
    assert not hosts.answers("attacker.example")
    assert [is_address(host) for host in ("192.0.2.7", "2001:db8::7", "reef.example", "")] == [True, True, False, False]
