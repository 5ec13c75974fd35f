import ast

from service.emitters.rules.patterns import (
    calls,
    expression,
    fed,
    feeding,
    flat,
    heads,
    is_call,
    only_inside,
    operand,
    reads,
    receiver,
    replace,
    replace_name,
    set_operand,
    statements,
    substitute,
    text,
    untaken,
    unused,
    writes,
)

LINES = statements("a = p\nfor i in range(a):\n    b += f(a, k=i)\nif b:\n    c = g.to(b)\nelse:\n    d = a\nstore(c)")


def test_calls_by_name_and_by_method():
    call = expression("tl.load(x).to(tl.float32)")
    assert is_call(call, ".to")
    assert not is_call(call, "tl.load")
    assert text(receiver(call)) == "tl.load(x)"
    assert [text(item) for item in calls(call, "tl.load")] == ["tl.load(x)"]


def test_operands_by_position_and_by_keyword():
    call = expression("tl.load(p, m, other=0.0)")
    assert text(operand(call, 1, "mask")) == "m"
    assert text(operand(call, 2, "other")) == "0.0"
    assert operand(call, 3, "cache_modifier") is None
    set_operand(call, 1, "mask", "m & live")
    set_operand(call, 2, "other", "1")
    set_operand(call, 99, "volatile", "True")
    assert text(call) == "tl.load(p, m & live, other=1, volatile=True)"


def test_reads_and_writes():
    assert reads(LINES[1]) == {"range", "a", "b", "f", "i"}
    assert writes(LINES[1]) == {"i", "b"}


def test_dependence_in_both_directions():
    lines = statements("a = p\nb = q\nc = a + b\nd = e\ne = d")
    assert feeding(lines, expression("c")) == {"c", "a", "b", "p", "q"}
    assert feeding(lines, expression("d")) == {"d", "e"}
    assert fed(lines, "p") == {"a", "c"}
    assert fed(lines, "q + 1") == set()


def test_flat_goes_in_order_through_branches():
    found = [text(line) for line in flat(LINES) if not isinstance(line, ast.For | ast.If)]
    assert found == ["a = p", "b += f(a, k=i)", "c = g.to(b)", "d = a", "store(c)"]
    assert [text(item) for item in heads(LINES[1])] == ["i", "range(a)"]


def test_names_that_are_free():
    root = expression("f(a, b=a_1)")
    assert unused("a", root) == "a_2"
    assert unused("b", root) == "b"
    assert untaken("x", {"x", "x_1"}) == "x_2"


def test_where_a_name_is_mentioned():
    lines = statements("a = tl.arange(0, N)\nb = tl.zeros((N,))")
    assert only_inside("N", lines, "tl.arange", "tl.zeros")
    assert not only_inside("N", lines, "tl.arange")


def test_replacing():
    tree = expression("f(a + a, g(a))")
    replace(tree, tree.args[1], expression("b"))
    assert text(tree) == "f(a + a, b)"
    assert text(substitute(tree, {"a": expression("c * d")})) == "f(c * d + c * d, b)"
    assert text(tree) == "f(a + a, b)"
    replace_name(tree, "a", "z")
    assert text(tree) == "f(z + z, b)"
