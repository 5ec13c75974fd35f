"""Addresses, keys, prices and counts that backends rest on."""

import pickle
from pathlib import Path

import pytest

from service.llm.options import (
    ApiKey,
    BackendContext,
    HttpOptions,
    PriceOptions,
    clean,
    is_global,
    is_private,
    most_tokens,
)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "10.1.2.3", "192.168.0.1", "fd00::1", "::1"])
def test_hosts_that_are_private_by_name(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize(
    "host",
    ["example.com", "8.8.8.8", "2606:4700::1111", "localhost.example.com", "metadata", "169.254.169.254", "fe80::1"],
)
def test_hosts_that_are_not(host: str) -> None:
    assert not is_private(host)


def test_an_address_inside_another_is_looked_at() -> None:
    assert not is_global("::ffff:10.0.0.1")
    assert not is_global("::ffff:127.0.0.1")
    assert is_global("::ffff:8.8.8.8")


@pytest.mark.parametrize(
    "url, near", [("http://127.0.0.1:8000/v1", True), ("http://[::1]:8000", True), ("https://example.com", False)]
)
def test_private_addresses_only_where_one_is_named(url: str, near: bool) -> None:
    assert HttpOptions(kind="openai", base_url=url, model="m").is_near is near


def test_where_machines_get_their_credentials_is_called_only_if_somebody_insists() -> None:
    with pytest.raises(ValueError, match="must start with https"):
        HttpOptions(kind="openai", base_url="http://169.254.169.254/latest", model="m")
    insisted = HttpOptions(kind="openai", base_url="http://169.254.169.254/v1", model="m", private_network=True)
    assert insisted.is_near


def test_a_name_may_be_said_to_be_private() -> None:
    options = HttpOptions(kind="openai", base_url="http://vllm:8000/v1/", model="m", private_network=True)
    assert options.is_near
    assert options.base_url == "http://vllm:8000/v1"


def test_a_key_shows_itself_to_nobody() -> None:
    key = ApiKey("sk-1")
    assert "sk-1" not in repr(key) + str(key) + repr(BackendContext(Path(), key))
    assert key.redact("bad key sk-1!") == "bad key [key]!"
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_an_unknown_price_is_none_and_not_zero() -> None:
    assert BackendContext(Path()).cost(1000, 1000) is None
    free = PriceOptions(input_usd_per_mtok=0, output_usd_per_mtok=0)
    assert BackendContext(Path(), price=free).cost(1000, 1000) == 0.0


def test_no_tokenizer_makes_more_tokens_than_there_are_bytes() -> None:
    assert most_tokens("abc", "\u00e9") == 64 + 5
    assert most_tokens("\ud800") == 65


def test_half_a_character_is_replaced() -> None:
    assert clean("a\ud83db\u00e9\0") == "a?b\u00e9\0"
