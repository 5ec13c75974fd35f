"""Parser of a language model's answer, which finds the one candidate in it.

Everything in an answer is data: nothing that it says changes how it is parsed. An answer is a whole file, or edits of
the parent, or a file with values to try for its constants. Anything else is unusable, and the reason is kept.
"""

import ast
import builtins
import json
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from service.emitters.llm import edits
from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer
from service.emitters.llm.fences import FencedBlock, fences, marks_for
from service.emitters.llm.rendering import clean
from service.emitters.llm.templates import ParameterTemplate, json_object, read_template
from service.emitters.llm.thoughts import CUT_IN_THOUGHT, after_tag, without_thoughts
from service.emitters.llm.unfenced import is_code, plain, readings
from service.operators.sources import parse
from workers.protocol.kernelbench import NEW

ANSWER_CHARS = 200_000
"""Maximum length of an answer, in characters: three times the longest candidate."""
SOURCE_BYTES = 65_536
"""Maximum size of a candidate, as for seed kernels in an operator's spec."""
DEEPEST = 24
"""Maximum number of blanks before a code block within lists."""

CHANGE_CHARS = 300
"""Maximum length of a model's line on what it changed."""

_CHANGE = re.compile(r"^[\s>*_#-]*change\b[*_]*\s*:[*_]*[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_JSON_CHANGE = re.compile(r'"change"\s*:\s*"((?:[^"\\\n]|\\.)+)"', re.IGNORECASE)
_DECLINES = re.compile(
    r"\b(?:ca(?:n't|nnot|n not)|wo(?:n't|uld not)|will not|unable to|not able to|(?:must|have to|to) decline)\b"
    r"(?:\W+\w+){0,3}?\W+(?:help|assist|comply|provide|fulfil|fulfill|continue|do|write|produce|to)\b",
    re.IGNORECASE,
)
"""Pattern of a refusal: some form of "cannot", and shortly after it a verb."""
_OPENING_CHARS = 600
"""Characters at the start of an answer that are searched for a refusal."""
_READ_AGAIN = {
    *(AnswerFault.NO_CODE, AnswerFault.NOT_PYTHON, AnswerFault.WRONG_ENTRY, AnswerFault.EDIT_NOT_FOUND),
    AnswerFault.TRUNCATED,
}
"""Faults of answers whose code may stand in another form."""
_GIVEN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class ParsedAnswer:
    """Content of a usable answer: one file, and values to try if it is a template."""

    source: str
    template: ParameterTemplate | None = None


def read_answer(
    text: str, entry: str, parent: str | None = None, *, truncated: bool = False, as_module: bool = False
) -> ParsedAnswer:
    """Find the candidate in an answer.

    Args:
        text: The answer.
        entry: The function that a candidate must define.
        parent: Source that edits refer to; None if there is none.
        truncated: True if the answer was cut off.
        as_module: True if a class `ModelNew` will do instead, as in candidates from files.

    Raises:
        UnusableAnswer: If there is not exactly one candidate.
    """
    names = {entry, NEW} if as_module else {entry}
    try:
        return _read(said(text, truncated=truncated), names, parent, truncated)
    except UnusableAnswer as error:
        if error.fault not in _READ_AGAIN:
            raise
        fault = error
    for other in _other_readings(text, fault, truncated=truncated):
        try:
            return _read(other, names, parent, truncated)
        except UnusableAnswer:
            continue
    raise fault


def _other_readings(text: str, fault: UnusableAnswer, *, truncated: bool) -> Iterator[str]:
    """Write an unusable answer in other ways. Of edits and of what was cut, only the characters are read otherwise."""
    text = text.replace("\r\n", "\n")
    if fault.sentence != CUT_IN_THOUGHT:
        spoken = without_thoughts(text)
    elif not truncated:
        yield (spoken := after_tag(text))  # The model ended without an end of its thoughts.
    else:
        return
    if edits.has_edits(spoken) or truncated or fault.fault is AnswerFault.TRUNCATED:
        yield plain(spoken)
    else:
        yield from readings(spoken)


def _read(text: str, names: set[str], parent: str | None, truncated: bool) -> ParsedAnswer:
    text, given = _unwrapped(text)
    given = given or (edits.read_edits(text) if edits.has_edits(text) else [])
    blocks = [] if given else _blocks(text)
    if not given and not any(_is_code(block.text) for block in blocks):
        given = edits.diff_edits(text, [block.text for block in blocks if block.word.startswith(("diff", "patch"))])
    if given:
        return _edited(given, names, parent, truncated)
    if any(not block.closed for block in blocks):
        raise UnusableAnswer(AnswerFault.TRUNCATED, "a code block has no end")
    if blocks:
        return ParsedAnswer(_checked(_from_blocks(blocks, names), names), read_template(blocks))
    if truncated:
        raise UnusableAnswer(AnswerFault.TRUNCATED, "the answer was cut before its first code block ended")
    return ParsedAnswer(_checked(_bare(text), names))


def said(text: str, *, truncated: bool = False) -> str:
    """Return an answer without the model's thoughts.

    Raises:
        UnusableAnswer: If nothing is left, or it is too long.
    """
    if len(text) > ANSWER_CHARS:
        raise UnusableAnswer(
            AnswerFault.TOO_LONG, f"the answer has {len(text)} characters; at most {ANSWER_CHARS} are allowed"
        )
    spoken = without_thoughts(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    if not spoken.strip():
        if truncated:
            raise UnusableAnswer(AnswerFault.TRUNCATED, CUT_IN_THOUGHT)
        raise UnusableAnswer(AnswerFault.EMPTY, "the answer is empty")
    return spoken


def change_of(text: str) -> str:
    """Return the line of an answer that says what the model changed and why; empty if it has none."""
    spoken = without_thoughts(text.replace("\r\n", "\n"))
    found = _CHANGE.search(spoken) or _JSON_CHANGE.search(spoken)
    return " ".join(clean(found[1]).strip(" *_`").split())[:CHANGE_CHARS] if found else ""


def _unwrapped(text: str) -> tuple[str, list[edits.SearchReplaceBlock]]:
    """Return the text that a JSON object holds as its `code`, or its edits, if an answer is such an object.

    The object may stand in a code block, if no other block is code.
    """
    blocks = _blocks(text)
    if edits.has_edits(text) or any(block.closed and _is_code(block.text) for block in blocks):
        return text, []
    for document in map(json_object, (text, *(block.text for block in blocks))):
        code, given = document.get("code"), edits.json_edits(document)
        if given:
            return text, given
        if isinstance(code, str):
            has_marks = bool(fences(code)) or edits.has_edits(code)
            inner = code if has_marks else f"{marks_for(code)}python\n{code}\n{marks_for(code)}"
            rest = {name: value for name, value in document.items() if name == "parameters"}
            return inner + (f"\n\n```json\n{json.dumps(rest)}\n```" if rest else ""), []
    return text, []


def _blocks(text: str) -> list[FencedBlock]:
    """Return the code blocks of an answer; those within lists only if it has no others and is no code itself."""
    return fences(text) or ([] if _is_code(text) else fences(text, DEEPEST))


def _edited(
    found: list[edits.SearchReplaceBlock], names: set[str], parent: str | None, truncated: bool
) -> ParsedAnswer:
    if truncated:
        raise UnusableAnswer(AnswerFault.TRUNCATED, "the answer was cut; edits may be missing")
    if len(found) == 1 and not found[0].search.strip():
        return ParsedAnswer(_checked(found[0].replacement, names))
    if parent is None:
        raise UnusableAnswer(
            AnswerFault.EDIT_NOT_FOUND, "there is no parent that edits could refer to; write the whole file"
        )
    return ParsedAnswer(_checked(edits.apply(found, parent), names))


def _from_blocks(blocks: list[FencedBlock], names: set[str]) -> str:
    python = [block for block in blocks if _is_code(block.text)]
    whole = [block for block in {block.text.strip(): block for block in python}.values() if _defines(block.text, names)]
    if len(whole) > 1:
        if "final" not in whole[-1].above.lower():
            raise UnusableAnswer(
                AnswerFault.SEVERAL_CANDIDATES, f"{len(whole)} code blocks define {_named(names)}, none is called final"
            )
        return whole[-1].text
    if whole:
        alone = not _missing(whole[0].text)
        return whole[0].text if alone else "\n\n".join(block.text for block in python)
    if python:
        raise UnusableAnswer(AnswerFault.WRONG_ENTRY, f"no code block defines {_named(names)}")
    raise UnusableAnswer(AnswerFault.NOT_PYTHON, _why_not_python(blocks))


def _bare(text: str) -> str:
    """Find the candidate in an answer without code blocks: the text itself."""
    if _is_code(text):
        return text
    if _DECLINES.search(text[:_OPENING_CHARS].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        raise UnusableAnswer(AnswerFault.REFUSED, "the model declined: " + " ".join(text.split())[:200])
    raise UnusableAnswer(AnswerFault.NO_CODE, "the answer has no code block")


def _checked(source: str, names: set[str]) -> str:
    """Check that a source can be a candidate, and return it.

    Raises:
        UnusableAnswer: If it is too long, no Python, or does not define the entry exactly once.
    """
    source = source.strip("\n") + "\n"
    if len(source.encode("utf-8", "surrogatepass")) > SOURCE_BYTES:
        raise UnusableAnswer(AnswerFault.TOO_LONG, f"the candidate is longer than {SOURCE_BYTES} bytes")
    try:
        module = parse(source)
        source.encode("utf-8")
    except (SyntaxError, UnicodeEncodeError) as error:
        raise UnusableAnswer(AnswerFault.NOT_PYTHON, f"Python cannot read the candidate: {_message(error)}") from error
    defined = [item.name for item in module.body if isinstance(item, ast.FunctionDef | ast.ClassDef)]
    twice = next((name for name in defined if name in names and defined.count(name) > 1), None)
    if twice is not None:
        raise UnusableAnswer(AnswerFault.SEVERAL_CANDIDATES, f"the file defines '{twice}' {defined.count(twice)} times")
    if not _entries(module, names):
        raise UnusableAnswer(AnswerFault.WRONG_ENTRY, f"the candidate does not define {_named(names)}")
    return source


def _is_code(text: str) -> bool:
    """Return True if a text is Python that does something.

    Raises:
        UnusableAnswer: If it is too long.
    """
    if len(text) > SOURCE_BYTES:
        raise UnusableAnswer(AnswerFault.TOO_LONG, f"a code block is longer than {SOURCE_BYTES} characters")
    return is_code(text)


def _defines(text: str, names: set[str]) -> bool:
    return bool(_entries(parse(text), names))


def _entries(module: ast.Module, names: set[str]) -> set[str]:
    """Return the names of entries that a module binds: functions and assignments, and the class `ModelNew`."""
    classes = {item.name for item in module.body if isinstance(item, ast.ClassDef)}
    return (names & _bound(module)) | (names & classes & {NEW})


def _named(names: set[str]) -> str:
    return " or ".join(f"a class '{name}'" if name == NEW else f"a function '{name}'" for name in sorted(names))


def _bound(module: ast.Module) -> set[str]:
    """Return names that a module's functions and assignments bind."""
    named = {item.name for item in module.body if isinstance(item, ast.FunctionDef)}
    stored = [item for item in module.body if isinstance(item, ast.Assign)]
    return named | {target.id for item in stored for target in item.targets if isinstance(target, ast.Name)}


def _missing(source: str) -> set[str]:
    """Return names that a file uses and does not bind."""
    try:
        module = symtable.symtable(source, "answer", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return set()
    given = {item.get_name() for item in module.get_symbols() if item.is_assigned() or item.is_imported()}
    used = {item.get_name() for item in module.get_symbols() if item.is_referenced()}
    waiting = list(module.get_children())
    while waiting:
        inner = waiting.pop()
        waiting += inner.get_children()
        used |= {item.get_name() for item in inner.get_symbols() if item.is_global() and item.is_referenced()}
    return used - given - _GIVEN


def _why_not_python(blocks: list[FencedBlock]) -> str:
    for block in blocks:
        if block.word.split(" ")[0].lower() in ("", "python", "py", "python3"):
            try:
                parse(block.text)
            except SyntaxError as error:
                return f"Python cannot read the code block: {_message(error)}"
    words = ", ".join(sorted({block.word[:20] or "no language" for block in blocks}))
    return f"no code block is a Python file ({words})"


def _message(error: SyntaxError | UnicodeEncodeError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds characters that UTF-8 cannot write"
    return f"{error.msg}, line {error.lineno}" if error.lineno else str(error.msg)
