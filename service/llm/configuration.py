"""Configuration file `backends.toml`: models, limits and prices. `docs/how-to/use-a-model-key.md` explains it.

[backends.local]
kind = "openai"
base_url = "http://127.0.0.1:8000/v1"
model = "my-model"

[prices."my-model"]
input_usd_per_mtok = 0.0
output_usd_per_mtok = 0.0
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kernelreef.validation import invalid
from service.errors import InvalidInput
from service.llm import BACKENDS
from service.llm.manual import Manual, ManualOptions
from service.llm.options import ApiKey, BackendOptions, HttpOptions, PriceOptions

FILE = "backends.toml"
"""Name of the file, in the data folder."""
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
"""Pattern of a backend's name: it fits a URL and a table."""
MOST_BYTES = 2**20
"""Maximum size of the file; a thousand backends fit."""

KNOWN: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "kind": "openai",
        "base_url": "https://api.openai.com/v1",
        "model": "gpt-5.5",
        "max_tokens_field": "max_completion_tokens",
        "key_env": "OPENAI_API_KEY",
    },
    "anthropic": {
        "kind": "anthropic",
        "base_url": "https://api.anthropic.com",
        "model": "claude-sonnet-4-6",
        "key_env": "ANTHROPIC_API_KEY",
    },
    "openrouter": {
        "kind": "openai",
        "base_url": "https://openrouter.ai/api/v1",
        "model": "anthropic/claude-sonnet-4.6",
        "key_env": "OPENROUTER_API_KEY",
    },
}
"""Vendors that need no section in the file if their key is in the environment.

`NAME_MODEL` and `NAME_BASE_URL`, such as `OPENAI_MODEL`, replace the model and the address. The models are those of
late 2026; a vendor that no longer has one says so.
"""
KNOWN_CALLS = 100
"""Maximum calls per search of such a backend: its key may be in the environment for another purpose."""

_PRICES = TypeAdapter(dict[str, PriceOptions])


@dataclass(frozen=True)
class BackendsConfiguration:
    """Contents of the file. The backend `manual` is always present because it needs no options."""

    backends: Mapping[str, BackendOptions]
    prices: Mapping[str, PriceOptions]

    def price_of(self, name: str) -> PriceOptions | None:
        """Return the price of a backend; None if the file gives none."""
        priced_as = self.backends[name].priced_as
        return self.prices.get(priced_as) if priced_as else None


def load_configuration(folder: Path) -> BackendsConfiguration:
    """Read the file in the data folder, and add the backends whose keys are in the environment.

    Raises:
        InvalidInput: If something in it is invalid; names the field and never quotes the value.
    """
    found = parse_configuration(_document(_text(folder)))
    ready = parse_configuration({"backends": from_environment()})
    return BackendsConfiguration({**ready.backends, **found.backends}, found.prices)


def from_environment() -> dict[str, dict[str, Any]]:
    """Return the options of the known vendors whose keys are in the environment."""
    found: dict[str, dict[str, Any]] = {}
    for name, options in KNOWN.items():
        if os.environ.get(options["key_env"], "").strip():
            own = {field: os.environ.get(f"{name}_{field}".upper(), "").strip() for field in ("model", "base_url")}
            own = {field: value for field, value in own.items() if value}
            found[name] = {**options, **own, "per_search": {"calls": KNOWN_CALLS}}
    return found


def add_backend(folder: Path, name: str, section: Mapping[str, Any], price: Mapping[str, float] | None = None) -> None:
    """Add a backend to the file, with the price of its model if it is given. The rest of the file stays as it is.

    Raises:
        InvalidInput: If the file has that backend or price already, or something in it would be invalid.
    """
    text = _text(folder)
    document = _document(text)
    if name in document.get("backends", {}):
        raise InvalidInput(f"has a backend '{name}' already; edit it there", FILE)
    lines = [f"[backends.{json.dumps(name)}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    model = str(section.get("model", ""))
    if price is not None and dict(price) != document.get("prices", {}).get(model):
        lines += ["", f"[prices.{json.dumps(model)}]", *(f"{key} = {value}" for key, value in price.items())]
    whole = f"{text.rstrip()}\n\n" * bool(text.strip()) + "\n".join(lines) + "\n"
    parse_configuration(_document(whole))
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{FILE}.part"
    part.write_text(whole, encoding="utf-8")
    part.replace(folder / FILE)


def _text(folder: Path) -> str:
    """Return the text of the file; empty if there is none."""
    try:
        text = (folder / FILE).read_bytes()[: MOST_BYTES + 1]
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", FILE) from error
    if len(text) > MOST_BYTES:
        raise InvalidInput(f"is larger than {MOST_BYTES} bytes", FILE)
    try:
        return text.decode()
    except ValueError as error:
        raise InvalidInput(f"is not TOML: {error}", FILE) from error


def _document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise InvalidInput(f"is not TOML: {error}", FILE) from error


def parse_configuration(document: Mapping[str, Any]) -> BackendsConfiguration:
    """Check the contents of the file.

    Raises:
        InvalidInput: If something in it is invalid; names the field.
    """
    for name in document.keys() - {"backends", "prices"}:
        raise InvalidInput("is unknown; write [backends.<name>] or [prices.<model>]", f"{FILE}: {name}")
    sections = document.get("backends", {})
    if not isinstance(sections, Mapping):
        raise InvalidInput("must be tables: [backends.<name>]", f"{FILE}: backends")
    backends = {name: _options(name, section) for name, section in sections.items()}
    try:
        prices = _PRICES.validate_python(document.get("prices", {}))
    except ValidationError as error:
        raise _field_error("prices", error, dict[str, PriceOptions]) from error
    return BackendsConfiguration({Manual.kind: ManualOptions(kind=Manual.kind), **backends}, prices)


def _options(name: str, section: object) -> BackendOptions:
    place = f"backends.{name}"
    if not NAME.fullmatch(name):
        raise InvalidInput("a name is made of a-z, 0-9, '_', '-' and '.'", f"{FILE}: {place}")
    kind = section.get("kind") if isinstance(section, Mapping) else None
    if not isinstance(kind, str) or kind not in BACKENDS:
        raise InvalidInput(f"must be one of: {', '.join(BACKENDS)}", f"{FILE}: {place}.kind")
    try:
        return BACKENDS[kind].options.model_validate(section)
    except ValidationError as error:
        raise _field_error(place, error, BACKENDS[kind].options) from error


def _field_error(place: str, error: ValidationError, document: object) -> InvalidInput:
    problem = invalid(error, document, secret=True)
    return InvalidInput(problem.detail, f"{FILE}: {place}{'.' if problem.field else ''}{problem.field or ''}")


def read_key(options: BackendOptions, folder: Path) -> ApiKey | None:
    """Read the API key of a backend; None if it needs none.

    Args:
        options: Options with the key's location.
        folder: Folder that relative paths of key files start from.

    Raises:
        InvalidInput: If the key is missing or unusable; names its location.
    """
    if not isinstance(options, HttpOptions):
        return None
    if options.key_env is not None:
        secret, where = os.environ.get(options.key_env, ""), f"the environment variable {options.key_env}"
    elif options.key_file is not None:
        try:
            secret = (folder / options.key_file.expanduser()).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the key file {options.key_file} cannot be read", "key_file") from error
        where = f"the key file {options.key_file}"
    else:
        return None
    secret = secret.strip()
    if not secret:
        raise InvalidInput(f"{where} is empty", "key")
    if not (secret.isascii() and secret.isprintable()):
        raise InvalidInput(f"{where} has characters that an HTTP header cannot carry", "key")
    return ApiKey(secret)
