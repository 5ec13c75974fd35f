"""Count the sentences of the docs, and those of more than 35 words.

    python -m benchmarks.sentences                  the share of long sentences in each file, and in all
    python -m benchmarks.sentences --list FILE...   with the long sentences themselves

Fenced code, headings, comments and targets of links are skipped. A list item or a table cell ends a sentence. Inline
code is one word. Fragments of fewer than four words, such as most cells of tables, do not count:
they would hide the long ones.
"""

import argparse
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
MOST_WORDS, LEAST_WORDS = 35, 4
SKIPPED = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$|<!--.*?-->|^#.*?$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^[ \t]*([-*+]|\d+[.)])[ \t]+")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|approx)\.(?=\s)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?![a-z])")


def blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a Markdown text, in order."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip().removeprefix(">").strip()
        row = stripped.startswith("|")
        if lines and (not stripped or row or ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if row:
            yield from re.split(r"(?<!\\)\|", stripped.strip("|"))
        elif stripped:
            lines.append(ITEM.sub("", stripped, count=1))


def sentences(text: str) -> list[str]:
    """Split a Markdown text into its sentences, inline code shown as `X`."""
    plain = re.sub(r"(`+)[^`].*?\1", "X", SKIPPED.sub("", text), flags=re.DOTALL)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    parts = (SENTENCE_END.split(ABBREVIATION.sub(r"\1", block.strip())) for block in blocks(plain))
    return [sentence for sentence in chain.from_iterable(parts) if words(sentence) >= LEAST_WORDS]


def words(sentence: str) -> int:
    """Count the words of a sentence: what stands between spaces and has a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def long_ones(found: list[str]) -> list[str]:
    """Select the sentences of more than 35 words."""
    return [sentence for sentence in found if words(sentence) > MOST_WORDS]


def pages() -> list[Path]:
    """List the Markdown files that the project publishes."""
    return sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in TOP)])


def main() -> None:
    """Print the share of long sentences in each file and in all."""
    parser = argparse.ArgumentParser(description="Count sentences of more than 35 words.")
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files; all of the project's if none is named")
    parser.add_argument("--list", action="store_true", help="print the long sentences")
    arguments = parser.parse_args()
    every = {path: sentences(path.read_text(encoding="utf-8")) for path in arguments.files or pages()}
    for path, found in every.items():
        print(f"{len(long_ones(found)):4} of {len(found):4}  {path}")
        if arguments.list:
            print(*(f"       {sentence}" for sentence in long_ones(found)), sep="\n")
    total = list(chain.from_iterable(every.values()))
    share = len(long_ones(total)) / max(len(total), 1)
    print(f"{share:.1%} of {len(total)} sentences have more than {MOST_WORDS} words")


if __name__ == "__main__":
    main()
