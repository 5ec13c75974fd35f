import pytest

from workers.protocol import Trust, TrustGrounds, label
from workers.protocol.trust import FULL_JAIL

BEST = TrustGrounds(
    jail="+".join(FULL_JAIL),
    replayed=True,
    measured=True,
    exclusive=True,
    agreed=True,
    sanitised=True,
    seconded=True,
)


def test_a_takes_everything() -> None:
    assert label(BEST) == (Trust.A, ())


@pytest.mark.parametrize("missing", ["exclusive", "agreed", "sanitised", "seconded"])
def test_b_lacks_something_of_what_a_takes(missing: str) -> None:
    trust, (reason,) = label(BEST.model_copy(update={missing: False}))
    assert trust is Trust.B and reason


def test_b_is_the_most_without_a_card() -> None:
    claims = BEST.model_copy(update={"measured": False})
    assert label(claims) == label(claims.model_copy(update={"seconded": False})) == (Trust.B, ("no card has run it",))


def test_b_has_a_jail_with_a_layer_less() -> None:
    assert label(BEST.model_copy(update={"jail": "user+mount+pid+net"})) == (
        Trust.B,
        ("the jail lacked ipc, readonly, tmpfs, dev, proc, seccomp",),
    )
    assert label(BEST.model_copy(update={"jail": BEST.jail + "+nobody"}))[0] is Trust.A


def test_c_is_the_word_of_a_host_that_nobody_vouches_for() -> None:
    assert label(BEST.model_copy(update={"vouched": False})) == (Trust.C, ("nobody vouches for the host",))
    trust, reasons = label(TrustGrounds(jail=BEST.jail, replayed=True, measured=True, vouched=False))
    assert trust is Trust.C and reasons[0] == "nobody vouches for the host" and len(reasons) == 5


@pytest.mark.parametrize("changes", [{"replayed": False}, {"jail": ""}])
def test_d_is_anything_else_whoever_vouches_for_it(changes: dict[str, object]) -> None:
    for vouched in (True, False):
        assert label(BEST.model_copy(update={"vouched": vouched, **changes}))[0] is Trust.D
