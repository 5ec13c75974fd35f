import pytest

from service.emitters.rules.facts import InferredValue, broadcast, facts, facts_of, infer
from service.emitters.rules.patterns import expression, statements
from tests.service.emitters.samples import DOUBLED, candidate, function_of, seed

SETUP = statements(
    """
cols = tl.arange(0, N)
wide = cols[None, :]
tall = tl.arange(0, M)[:, None]
x = tl.load(p + cols).to(tl.float32)
tile = tl.zeros([M, N], tl.float32)
"""
)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1.5", InferredValue((), "number")),
        ("-float('inf')", InferredValue((), "number")),
        ("p", InferredValue()),
        ("cols", InferredValue(("N",))),
        ("tall + wide", InferredValue(("M", "N"))),
        ("tall < wide", InferredValue(("M", "N"))),
        ("x * 2.0 + p", InferredValue(("N",), "float32")),
        ("tile + x", InferredValue(("M", "N"), "float32")),
        ("tl.load(p + cols)", InferredValue(("N",))),
        ("tl.load(p + cols).to(tl.float16)", InferredValue(("N",))),
        ("tl.cast(cols, tl.float32)", InferredValue(("N",), "float32")),
        ("tl.sum(tile, axis=1)", InferredValue(("M",), "float32")),
        ("tl.sum(tile, 0)", InferredValue(("N",), "float32")),
        ("tl.max(tile, axis=1, keep_dims=True)", InferredValue(("M", "1"), "float32")),
        ("tl.sum(tile)", InferredValue((), "float32")),
        ("tl.where(cols < p, x, 0.0)", InferredValue(("N",), "float32")),
        ("tl.multiple_of(cols, 8)", InferredValue(("N",))),
        ("tl.full((N,), 0.0, dtype=tl.float32)", InferredValue(("N",), "float32")),
        ("tl.program_id(0).to(tl.int64)", InferredValue()),
        ("x.dtype", InferredValue()),
    ],
)
def test_what_is_known(code, value):
    assert infer(expression(code), facts(["p"], SETUP)) == value


@pytest.mark.parametrize(
    "code",
    [
        "tl.arange(4, N)",
        "cols + tl.arange(0, M)",
        "unknown_call(x)",
        "x[0]",
        "tile[:, None]",
        "tl.sum(tile, axis=a)",
        "tl.max(tile, axis=1, return_indices=True)",
        "tl.dot(tile, tile)",
        "x if p else cols",
        "tl.zeros(shape, tl.float32)",
        "'text'",
    ],
)
def test_what_is_not_known(code):
    assert infer(expression(code), facts(["p", "a"], SETUP)) is None


def test_broadcast():
    assert broadcast(("M", "1"), ("N",)) == ("M", "N")
    assert broadcast((), ("N",)) == ("N",)
    assert broadcast(("M",), ("N",)) is None


def test_a_fold_that_starts_from_a_number_is_what_it_becomes():
    lines = statements("total = 0.0\nfor i in range(0, n, N):\n    total += tl.sum(x, axis=0)")
    flat = [lines[0], lines[1], *lines[1].body]
    assert facts(["n", "N"], [*SETUP, *flat])["total"] == InferredValue((), "float32")


def test_a_name_for_two_things_is_not_known():
    lines = statements("a = tl.arange(0, N)\na = a[None, :]\nb = a + 1\nc, d = f()")
    known = facts(["N"], lines)
    assert [known[name] for name in "abcd"] == [None] * 4


def test_names_that_only_feed_each_other_are_not_known():
    assert facts([], statements("a = b\nb = a")) == {"a": None, "b": None}


def test_too_long_a_chain_backwards_is_given_up():
    lines = statements("\n".join(f"a{i} = a{i + 1}" for i in range(30)) + "\na30 = 1.0")
    assert set(facts([], lines).values()) == {None}


def test_all_of_a_seed_is_known():
    assert None not in facts_of(function_of(seed("layernorm"))).values()
    assert facts_of(function_of(candidate(DOUBLED)))["x"] == InferredValue(("BLOCK",), "float32")
