"""`backends.toml`: what is right is read, what is wrong is named, and nothing secret is quoted."""

from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.llm.configuration import FILE, load_configuration, parse_configuration, read_key
from service.llm.options import HttpOptions

HOSTED = {"kind": "openai", "base_url": "https://api.example.com/v1", "model": "m"}
SECRET = "sk-in-the-wrong-place"


def one(**changes: object) -> dict[str, object]:
    return {"backends": {"a": {**HOSTED, **changes}}}


def test_the_example_of_the_docs_is_right(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "use-a-model-key.md"
    example = page.read_text().partition("```toml\n")[2].partition("```")[0]
    (tmp_path / FILE).write_text(example)
    found = load_configuration(tmp_path)
    assert list(found.backends) == ["manual", "claude", "local"]
    assert found.backends["claude"].per_search.usd == 20.0
    price = found.price_of("claude")
    assert price is not None
    assert price.of(1_000_000, 100_000) == pytest.approx(4.5)
    assert found.price_of("local") is None
    assert found.price_of("manual") is None


def test_every_field_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "use-a-model-key.md").read_text()
    assert [name for name in HttpOptions.model_fields if f"`{name}`" not in page] == []


def test_without_a_file_there_is_manual(tmp_path: Path) -> None:
    assert list(load_configuration(tmp_path).backends) == ["manual"]


def test_a_price_may_be_shared() -> None:
    price = {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}
    found = parse_configuration({**one(price="own"), "prices": {"own": price}})
    assert found.price_of("a") is not None


@pytest.mark.parametrize(
    "document, field",
    [
        ({"backend": {}}, "backend"),
        ({"backends": []}, "backends"),
        ({"backends": {"A b": HOSTED}}, "backends.A b"),
        ({"backends": {"a": 3}}, "backends.a.kind"),
        ({"backends": {"a": {"kind": "gpt"}}}, "backends.a.kind"),
        ({"backends": {"a": {"kind": ["openai"]}}}, "backends.a.kind"),
        ({"backends": {"a": {"kind": "openai", "model": "m"}}}, "backends.a.base_url"),
        (one(key=SECRET), "backends.a.key"),
        (one(base_url="ftp://example.com"), "backends.a.base_url"),
        (one(base_url="https://"), "backends.a.base_url"),
        (one(base_url=f"https://user:{SECRET}@example.com"), "backends.a.base_url"),
        (one(base_url=f"https://example.com?key={SECRET}"), "backends.a.base_url"),
        (one(base_url="http://example.com/v1"), "backends.a"),
        (one(key_env="A", key_file="b"), "backends.a"),
        (one(extra={"stream": True}), "backends.a"),
        (one(max_concurrency=0), "backends.a.max_concurrency"),
        (one(requests_per_minute=0), "backends.a.requests_per_minute"),
        (one(timeout_s=float("inf")), "backends.a.timeout_s"),
        (one(per_search={"usd": -1}), "backends.a.per_search.usd"),
        (one(per_search={"dollars": 1}), "backends.a.per_search.dollars"),
        ({"prices": {"m": {"input_usd_per_mtok": 1}}}, "prices.m.output_usd_per_mtok"),
        ({"prices": {"m": {"input_usd_per_mtok": -1, "output_usd_per_mtok": 1}}}, "prices.m.input_usd_per_mtok"),
        ({"prices": 3}, "prices"),
    ],
)
def test_what_cannot_be_right_is_named_and_not_quoted(document: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_configuration(document)
    assert caught.value.field == f"{FILE}: {field}"
    assert SECRET not in f"{caught.value.detail} {caught.value!r}"


@pytest.mark.parametrize("data", [b"[backends", b"\xff\xfe", b"# long" * 200_000])
def test_a_file_that_is_no_toml(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(InvalidInput) as caught:
        load_configuration(tmp_path)
    assert caught.value.field == FILE


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_configuration(tmp_path)


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_TEST_KEY", f" {SECRET}\n")
    (tmp_path / "a.key").write_text(f"{SECRET}\n")
    for where in ({"key_env": "REEF_TEST_KEY"}, {"key_file": "a.key"}, {"key_file": str(tmp_path / "a.key")}):
        key = read_key(parse_configuration(one(**where)).backends["a"], tmp_path)
        assert key is not None
        assert key.secret == SECRET
        assert SECRET not in f"{key} {key!r}"
    assert read_key(parse_configuration(one()).backends["a"], tmp_path) is None
    assert read_key(parse_configuration({}).backends["manual"], tmp_path) is None


@pytest.mark.parametrize(
    "value, said", [("", "is empty"), ("  ", "is empty"), ("a\nb", "HTTP header"), ("\u00e9", "HTTP header")]
)
def test_a_key_that_is_none(tmp_path: Path, value: str, said: str) -> None:
    (tmp_path / "a.key").write_text(value)
    with pytest.raises(InvalidInput, match=said):
        read_key(parse_configuration(one(key_file="a.key")).backends["a"], tmp_path)
