"""Refusal by the assembler: one exception, which `assembly` turns into an outcome."""

from workers.protocol import REASON_CHARS, Outcome, printable


class AssemblyRefused(Exception):
    """The assembly breaks a rule.

    Attributes:
        reason: A sentence that a person or an LLM can act on. Names from the assembly cannot exceed the length that
            reports allow, nor contain terminal escapes.
        outcome: `plan_rejected` for rules of the judge, `compile_error` for limits of the target.
        line: The candidate's line, where the assembly names it.
    """

    def __init__(self, reason: str, line: int | None = None, outcome: Outcome = Outcome.PLAN_REJECTED) -> None:
        self.reason = printable(reason[:REASON_CHARS]).replace("\n", " ")
        super().__init__(self.reason)
        self.line = line
        self.outcome = outcome
