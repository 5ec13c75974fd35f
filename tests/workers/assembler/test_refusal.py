from workers.assembler.refusal import AssemblyRefused
from workers.protocol import REASON_CHARS, Outcome


def test_a_refusal_says_why_and_where() -> None:
    assert AssemblyRefused("because").outcome is Outcome.PLAN_REJECTED
    refused = AssemblyRefused("too big", 12, Outcome.COMPILE_ERROR)
    assert (str(refused), refused.reason, refused.line) == ("too big", "too big", 12)


def test_hostile_names_neither_flood_a_report_nor_steer_a_terminal() -> None:
    refused = AssemblyRefused("the name '\x1b[2J\n" + "x" * 10_000 + "' is taken")
    assert len(refused.reason) == REASON_CHARS
    assert refused.reason.startswith("the name ' [2J xxx")
