"""Faults of unusable answers: a word for statistics, and a sentence for the model's next attempt."""

from enum import StrEnum

SENTENCE = 400
"""Longest sentence kept, in characters."""


class AnswerFault(StrEnum):
    """Kind of fault of an answer. `docs/how-to/use-a-model-key.md` explains each."""

    EMPTY = "empty"
    REFUSED = "refused"
    NO_CODE = "no_code"
    NOT_PYTHON = "not_python"
    WRONG_ENTRY = "wrong_entry"
    SEVERAL_CANDIDATES = "several_candidates"
    EDIT_NOT_FOUND = "edit_not_found"
    EDIT_AMBIGUOUS = "edit_ambiguous"
    TRUNCATED = "truncated"
    TOO_LONG = "too_long"
    BAD_TEMPLATE = "bad_template"
    BAD_CALL = "bad_call"
    STEPS_SPENT = "steps_spent"


class UnusableAnswer(Exception):
    """Answer without a usable candidate. Raised inside the parser; the emitter returns it as a value."""

    def __init__(self, fault: AnswerFault, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault
        self.sentence = sentence[:SENTENCE]
