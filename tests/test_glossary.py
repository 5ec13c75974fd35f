"""The glossary: short, alphabetical, in use, and free of the words that it replaced."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GLOSSARY = DOCS / "glossary.md"
PAGES = sorted(
    path
    for path in (*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if "decisions" not in path.parts and path.name != "renames.md"
)
"""Pages in today's words. Decision records, the CHANGELOG and the page of renames keep former words."""
CODE = sorted(path for room in ("archive", "workers", "service") for path in (ROOT / room).rglob("*.py"))
ENTRIES = re.findall(r"^\*\*([^*\n]+)\*\*: (.+)$", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
MOST_WORDS = 40
RETIRED = {
    "admission gate": "mutation testing",
    "asking/": "llm/gateway",
    "bench": "executor",
    "benches": "executors",
    "by lot": "at random",
    "census": "axis statistics",
    "contest": "head to head",
    "exporting/": "export",
    "feint": "truncated sample",
    "feints": "truncated samples",
    "hiring": "fleet",
    "inmate": "child",
    "jail": "sandbox",
    "jails": "sandboxes",
    "judging/": "evaluation",
    "judging_s": "device_seconds",
    "learning/": "knowledge",
    "ledger": "unit of work",
    "lessee": "lease client",
    "lots": "random choices",
    "parked": "disabled",
    "patience.py": "stalled",
    "porter": "lease broker",
    "proposing/": "generation",
    "purse": "budget",
    "reef change": "reef update",
    "rests_s": "retry_after_s",
    "roster": "search cache",
    "searching/": "scheduler",
    "seals": "checksums after samples",
    "steering/": "scheduler/changes",
    "stranger": "untrusted side",
    "strangers": "untrusted sides",
    "stream.reread": "stream.reset",
    "telling/": "analysis",
    "tenure": "lease",
    "unpark": "enable",
    "unserved": "devices_without_worker",
    "vetting": "spot checks",
    "vouch": "trust",
    "vouches": "trusts",
    "waits_for": "missing_workers",
    "warden": "supervisor",
    "whoever": "a noun",
    "yardstick": "reference seed",
}
"""Words that must not come back, each with the word that took its place."""


def text_of(page: Path) -> str:
    """A page without the targets of its links: decision records keep their file names."""
    return re.sub(r"\]\([^)\s]*\)", "]", page.read_text(encoding="utf-8"))


def pattern_of(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(words)}" + ("" if words.endswith("/") else r"(?![\w-])"), re.IGNORECASE)


def test_the_glossary_is_short_and_alphabetical() -> None:
    names = [name.lower() for name, _ in ENTRIES]
    assert 50 <= len(names) <= 70
    assert names == sorted(set(names))
    assert GLOSSARY.read_text(encoding="utf-8").count("\n**") == len(names), "every entry reads '**word**: text'"


@pytest.mark.parametrize(("name", "explanation"), ENTRIES, ids=[name for name, _ in ENTRIES])
def test_an_entry_is_explained_in_few_words(name: str, explanation: str) -> None:
    assert 4 <= len(explanation.split()) <= MOST_WORDS
    assert explanation.endswith(".")
    assert not explanation.lower().startswith(name.lower()), "a word does not explain itself"


def test_every_entry_is_in_use() -> None:
    texts = [path.read_text(encoding="utf-8").lower() for path in (*PAGES, *CODE) if path != GLOSSARY]
    everything = re.sub(r"\s+", " ", "\n".join(texts))
    unused = [name for name, _ in ENTRIES if not re.search(rf"\b{re.escape(name.lower())}", everything)]
    assert unused == []


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_retired_words_stay_away(page: Path) -> None:
    text = text_of(page)
    found = {words: better for words, better in RETIRED.items() if pattern_of(words).search(text)}
    assert found == {}, "write the word on the right"
