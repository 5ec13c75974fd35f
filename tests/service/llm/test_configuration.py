"""`backends.toml`: what is right is read, what is wrong is named, and nothing secret is quoted."""

from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.llm.configuration import FILE, KNOWN, add_backend, load_configuration, parse_configuration, read_key
from service.llm.options import HttpOptions

HOSTED = {"kind": "openai", "base_url": "https://api.example.com/v1", "model": "m"}
SECRET = "sk-in-the-wrong-place"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys in the environment."""
    for options in KNOWN.values():
        monkeypatch.delenv(options["key_env"], raising=False)


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
        (one(extra={"max_tokens": 1}), "backends.a"),
        (one(extra={"max_completion_tokens": 60_000}), "backends.a"),
        (one(extra={"reasoning": {"max_tokens": 60_000}}), "backends.a"),
        (one(extra={"thinking": {"type": "enabled", "budget_tokens": 8193}}), "backends.a"),
        (one(max_tokens=100, extra={"thinking": {"budget_tokens": 101}}), "backends.a"),
        (one(extra={"extra_body": {"options": {"num_predict": -1}}}), "backends.a"),
        (one(extra={"generationConfig": {"maxOutputTokens": "60000"}}), "backends.a"),
        (one(extra={"n": 4}), "backends.a"),
        (one(extra={"body": [{"best_of": 2}]}), "backends.a"),
        (one(extra={"models": ["dearer"]}), "backends.a"),
        (one(extra={"background": True}), "backends.a"),
        (one(extra={"service_tier": "priority"}), "backends.a"),
        (one(extra={"enable_search": True}), "backends.a"),
        (one(extra={"num_completions": 2}), "backends.a"),
        (one(extra={"data_sources": [{"type": "azure_search"}]}), "backends.a"),
        (one(extra={"modalities": ["text", "audio"]}), "backends.a"),
        (one(extra={"tools": [{"type": "web_search"}]}), "backends.a"),
        (one(extra={"prediction": {"content": "x"}}), "backends.a"),
        (one(extra={"x": float("nan"), "y": {1, 2}}), "backends.a"),
        (one(headers={"Host": "x"}), "backends.a"),
        (one(headers={"X-A": "a\nb"}), "backends.a.headers.X-A"),
        (one(proxy="socks5://x"), "backends.a"),
        (one(max_tokens=0), "backends.a.max_tokens"),
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


@pytest.mark.parametrize(
    "extra",
    [
        {"temperature": 0.8, "top_p": 0.9, "seed": 3, "reasoning_effort": "high", "n": 1},
        {"thinking": {"type": "enabled", "budget_tokens": 8000}},
        {"reasoning": {"effort": "high", "max_tokens": 4000}},
        {"provider": {"order": ["a"]}, "repetition_penalty": 1.1, "chat_template_kwargs": {"thinking": True}},
        {"response_format": {"type": "json_object"}, "tools": [], "service_tier": "flex"},
    ],
)
def test_fields_that_cost_no_more_are_passed_on(extra: dict[str, object]) -> None:
    options = parse_configuration(one(extra=extra)).backends["a"]
    assert isinstance(options, HttpOptions)
    assert options.extra == extra


def test_a_dearer_tier_needs_a_price_of_its_own() -> None:
    options = parse_configuration(one(extra={"service_tier": "priority"}, price="fast")).backends["a"]
    assert options.priced_as == "fast"


def test_a_key_in_the_environment_is_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(load_configuration(tmp_path).backends) == ["manual"]
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_MODEL", "other")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "  ")
    monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
    found = load_configuration(tmp_path).backends
    assert sorted(found) == ["manual", "openai", "openrouter"]
    mine, other = found["openai"], found["openrouter"]
    assert isinstance(mine, HttpOptions) and isinstance(other, HttpOptions)
    assert (mine.model, mine.base_url, mine.per_search.calls) == ("other", "http://127.0.0.1:1/v1", 100)
    assert other.base_url == "https://openrouter.ai/api/v1"
    key = read_key(other, tmp_path)
    assert key is not None and key.secret == SECRET
    (tmp_path / FILE).write_text('[backends.openai]\nkind = "manual"\n[prices."other"]\n')
    with pytest.raises(InvalidInput):
        load_configuration(tmp_path)
    (tmp_path / FILE).write_text('[backends.openai]\nkind = "manual"\n')
    assert load_configuration(tmp_path).backends["openai"].kind == "manual", "the file comes first"


def test_a_backend_is_added_and_the_rest_stays(tmp_path: Path) -> None:
    price = {"input_usd_per_mtok": 1.5, "output_usd_per_mtok": 6.0}
    add_backend(tmp_path / "new", "a", HOSTED, price)
    add_backend(tmp_path / "new", "b", {**HOSTED, "key_env": 'quote"d'}, price)
    path = tmp_path / "new" / FILE
    path.write_text(f"# mine\n{path.read_text()}")
    add_backend(tmp_path / "new", "c.d", HOSTED)
    found = load_configuration(tmp_path / "new")
    assert list(found.backends) == ["manual", "a", "b", "c.d"]
    assert found.prices["m"].of(10**6, 10**6) == 7.5
    assert path.read_text().startswith("# mine\n")
    before = path.read_text()
    for name, section in (("a", HOSTED), ("B b", HOSTED), ("e", {"kind": "gpt"}), ("f", {**HOSTED, "model": ""})):
        with pytest.raises(InvalidInput):
            add_backend(tmp_path / "new", name, section)
    assert path.read_text() == before


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
