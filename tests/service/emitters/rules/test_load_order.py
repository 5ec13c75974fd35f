from service.emitters.rules.load_order import FARTHEST
from tests.service.emitters.samples import applies, candidate, rewritten, seed


def test_loads_move_to_where_they_are_used_or_up_to_what_they_need():
    found = {rewritten("load_order", seed("rmsnorm"), draw) for draw in range(20)}
    orders = [code.index("weight = tl.load") < code.index("mean_square =") for code in found]
    assert True in orders
    assert False in orders


def order(lines):
    return candidate("\n".join(["p = x_ptr + 1", "a = tl.load(p)", *lines, "tl.store(y_ptr, a)"]))


def test_quiet_lines_can_be_passed():
    assert applies("load_order", order(["b = p + 1"]))
    assert applies("load_order", order(["for i in range(3):", "    b = i"]))


def test_lines_that_cannot_be_passed():
    for lines in (
        ["p = p + 1"],
        ["b = a"],
        ["a = a + 1"],
        ["tl.store(y_ptr, p)"],
        ["tl.debug_barrier()"],
        ["b = tl.atomic_add(y_ptr, 1)"],
        ["b = helper(p)"],
        ["if p:", "    b = 1"],
        ["for i in range(3):", "    tl.store(y_ptr, i)"],
    ):
        assert not applies("load_order", order(lines)), lines


def test_loads_do_not_move_far():
    source = order([f"b{number} = {number}" for number in range(FARTHEST + 9)])
    lines = rewritten("load_order", source).splitlines()
    assert lines.index("    a = tl.load(p)") == lines.index("    p = x_ptr + 1") + 1 + FARTHEST
