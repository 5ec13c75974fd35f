from markupsafe import Markup

from service.dashboard.sources import MOST_DIFF_LINES, difference, highlighted, side_by_side
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import Document, faults


def test_every_line_stays_one_line() -> None:
    source = '\n\ndef f(x):\n    """two\n    lines"""\n    return x\n\n'
    lines = highlighted(source)
    assert len(lines) == len(source.removesuffix("\n").split("\n"))
    assert Markup("\n").join(lines).striptags().replace(" ", "") == source.strip().replace("\n", "").replace(" ", "")
    assert '<span class="nf">f</span>' in lines[2]


def test_hostile_source_is_only_text() -> None:
    for text in CORPUS:
        document = Document(str(Markup("").join(highlighted(f"# {text}\n'{text}'\n"))))
        assert {tag for tag, _ in document.tags} <= {"span"} and faults(document) == []


def test_changes_are_told_apart() -> None:
    changes = difference("a\nb\nc\n", "a\nB\nc\n")
    assert changes is not None
    assert [(line.kind, line.text) for line in changes[1:4]] == [("same", " a"), ("del", "-b"), ("add", "+B")]
    assert difference("same", "same") == ()


def test_what_is_too_long_is_not_compared() -> None:
    assert difference("\n" * MOST_DIFF_LINES, "") is None


def test_two_sources_are_aligned_line_by_line() -> None:
    lines = side_by_side("a\nold\nb", "a\nnew\nmore\nb")
    assert lines is not None
    assert [(line.left, line.right, line.changed) for line in lines] == [
        ("a", "a", False),
        ("old", "new", True),
        (None, "more", True),
        ("b", "b", False),
    ]
    assert (lines[-1].left_number, lines[-1].right_number, lines[2].left_number) == (3, 4, None)
    assert side_by_side("x\n" * (MOST_DIFF_LINES + 1), "") is None
