import pytest

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer
from service.emitters.llm.edits import EDITS, SearchReplaceBlock, apply, diff_edits, has_edits, json_edits, read_edits

PARENT = "a = 1\nb = 2\nb = 2\nc = 3\n"


def block(search, replacement):
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE\n"


def fault(call, *arguments):
    with pytest.raises(UnusableAnswer) as raised:
        call(*arguments)
    return raised.value.fault


def test_edits_stand_inside_fences_or_bare():
    text = f"First\n```\n{block('a = 1', 'a = 9')}```\nthen\n{block('c = 3', '')}"
    assert has_edits(text) and not has_edits("<<<<<<< SEARCHING")
    found = read_edits(text)
    assert found == [SearchReplaceBlock("a = 1", "a = 9"), SearchReplaceBlock("c = 3", "")]
    assert apply(found, PARENT) == "a = 9\nb = 2\nb = 2\n\n"


def test_edits_apply_to_the_result_of_the_one_before():
    assert apply([SearchReplaceBlock("a = 1", "x = 1"), SearchReplaceBlock("x = 1", "y = 1")], PARENT).startswith(
        "y = 1\n"
    )


@pytest.mark.parametrize(
    "search, expected",
    [
        ("d = 4", AnswerFault.EDIT_NOT_FOUND),
        (" a = 1", AnswerFault.EDIT_NOT_FOUND),
        ("", AnswerFault.EDIT_NOT_FOUND),
        ("b = 2", AnswerFault.EDIT_AMBIGUOUS),
    ],
)
def test_a_search_text_must_stand_there_once(search, expected):
    assert fault(apply, [SearchReplaceBlock(search, "z")], PARENT) is expected


def test_overlapping_occurrences_count():
    assert fault(apply, [SearchReplaceBlock("aa", "b")], "aaa") is AnswerFault.EDIT_AMBIGUOUS


def test_what_an_earlier_edit_took_is_gone():
    with pytest.raises(UnusableAnswer, match="after the earlier edits"):
        apply([SearchReplaceBlock("a = 1", "x = 1"), SearchReplaceBlock("a = 1\nb", "y")], PARENT)


@pytest.mark.parametrize(
    "cut", ["<<<<<<< SEARCH\na = 1", "<<<<<<< SEARCH\na = 1\n=======\na = 2", "<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n"]
)
def test_a_block_without_its_end_is_cut(cut):
    assert fault(read_edits, block("a = 1", "b") + cut) is AnswerFault.TRUNCATED


def test_too_many_edits_are_refused():
    assert fault(read_edits, block("a", "b") * (EDITS + 1)) is AnswerFault.TOO_LONG


def test_a_parent_with_other_line_ends_is_edited_all_the_same():
    assert apply([SearchReplaceBlock("a = 1\nb = 2\nb", "q")], PARENT.replace("\n", "\r\n")) == "q = 2\nc = 3\n"


@pytest.mark.parametrize(
    "text, diffs",
    [
        ("--- a/k.py\n+++ b/k.py\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 9\n b = 2\n", []),
        ("*** Begin Patch\n*** Update File: k.py\n@@\n-a = 1\n+a = 9\n b = 2\n*** End Patch", []),
        ("", ["-a = 1\n+a = 9\n b = 2"]),
    ],
)
def test_a_diff_is_edits(text, diffs):
    assert apply(diff_edits(text, diffs), PARENT) == PARENT.replace("a = 1", "a = 9")


def test_a_diff_that_changes_nothing_or_too_much():
    assert diff_edits("@@\n a = 1\n", []) == []
    assert fault(diff_edits, "@@\n-a\n+b\n" * (EDITS + 1), []) is AnswerFault.TOO_LONG


@pytest.mark.parametrize(
    "text",
    ["------- SEARCH\na = 1\n=======\na = 9\n+++++++ REPLACE\n", "<<<<<<< HEAD\na = 1\n=======\na = 9\n>>>>>>> new\n"],
)
def test_marks_of_other_tools(text):
    assert apply(read_edits(text), PARENT) == PARENT.replace("a = 1", "a = 9")


@pytest.mark.parametrize(
    "document",
    [{"edits": [{"old_string": "a = 1", "new_string": "a = 9"}]}, {"old_str": "a = 1", "new_str": "a = 9"}],
)
def test_names_of_other_tools(document):
    assert json_edits(document) == [SearchReplaceBlock("a = 1", "a = 9")]
