"""How the assembler says no: one exception, private to the package, that `assembly` turns into an outcome."""

from workers.protocol import REASON_CHARS, Outcome, printable


class AssemblyRefused(Exception):
    """The assembly breaks a rule.

    Attributes:
        reason: A sentence that a person or an LLM can act on; names out of the assembly make it no longer than
            reports allow and steer no terminal.
        outcome: `plan_rejected` for rules of the judge, `compile_error` for limits of the target.
        line: Line of the candidate that the place came from, where the assembly says so.
    """

    def __init__(self, reason: str, line: int | None = None, outcome: Outcome = Outcome.PLAN_REJECTED) -> None:
        self.reason = printable(reason[:REASON_CHARS]).replace("\n", " ")
        super().__init__(self.reason)
        self.line = line
        self.outcome = outcome
