import pytest

from tests.service.emitters.samples import applies, rewritten, seed

PERSISTENT = rewritten("persistent", seed("rmsnorm"))


def test_weights_are_loaded_before_the_loop():
    code = rewritten("hoist_load", PERSISTENT)
    assert code.index("weight = tl.load") < code.index("for turn") < code.index("x = tl.load")
    assert code.index("mask = ") < code.index("weight = tl.load")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("weight_ptr + cols", "weight_ptr + row + cols"),
        ("weight = tl.load", "weight = row\n        weight = tl.load"),
        ("torch.empty_like(x)", "weight"),
    ],
)
def test_loads_that_may_change_from_turn_to_turn(old, new):
    assert old in PERSISTENT
    assert not applies("hoist_load", PERSISTENT.replace(old, new))


def test_without_a_loop_over_pieces_there_is_nothing_to_hoist():
    assert not applies("hoist_load", seed("rmsnorm"))
    assert not applies("hoist_load", rewritten("persistent", seed("softmax")))
