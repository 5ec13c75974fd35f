"""Kernels behave as in Triton's compiler where Python differs."""

import textwrap

import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret

N = torch.tensor([3], dtype=torch.int32)

FOUND = {
    "numbers that are added to are scalars": ("k: tl.constexpr = -7\nk += 0\nr = k // 2", -3),
    "what is only annotated is a scalar": ("k: tl.tensor = -7\nr = k // 2", -3),
    "compile-time values are Python's": ("k: tl.constexpr = -7\nr = k // 2", -4),
    "what the device chooses is a scalar": ("r = (-7 if n > 0 else 5) // 2", -3),
    "what the compiler chooses is Python's": ("r = (-7 if K > 0 else 5) // 2", -4),
    "lists are tuples of scalars": ("k = [-7, 1]\nr = k[0] // 2", -3),
    "constants are plain": ("r = 1 if NOTHING is None else 2", 1),
    "constants have values": ("r = TWO.value + K.value", 5),
    "a made constant is plain": ("r = 1 if tl.constexpr(None) is not None else 2", 2),
    "assertions are evaluated": ("assert tl.atomic_add(a1, 5) == 0\nr = tl.load(a1)", 5),
    "keyword arguments come first": ("r = pair(tl.atomic_add(a1, 1), b=tl.atomic_add(a1, 1))", 10),
    "without a call nothing changes": ("r = pair(n, b=K)", 33),
    "the only bound of a range is evaluated twice": ("r = 0\nfor i in range(tl.atomic_add(a1, 2) + 1):\n    r += 1", 3),
    "two bounds are evaluated once": ("r = 0\nfor i in range(0, tl.atomic_add(a1, 2) + 1):\n    r += 1", 1),
    "an unrolled loop's counter stays": ("for i in tl.static_range(6):\n    n += i\nr = i", 5),
    "without a turn it is what it was": ("i = 1\nfor i in tl.static_range(0):\n    pass\nr = i", 1),
    "loops' hints come last": ("r = 0\nfor i in tl.range(0, n, num_stages=K):\n    r += i", 3),
    "branches may assign tensors": ("r = n + 0\nt = (n, n)\nif n > 0:\n    r = n + 1\n    t = (r, n)\nr += t[0]", 8),
    "branches of the compiler may assign anything": ("m = None\nif K > 0:\n    m = 5\nr = m", 5),
    "what branches of the compiler's leave out is not assigned": (
        "m = None\nr = n + 0\nif n > 0:\n    for i in range(2):\n        if K < 0:\n            m = 1\n"
        "        elif NOTHING is not None:\n            m = 2\n        else:\n            r += 1\n"
        "r = r if m is None else 0", 5
    ),
    "what is not there is not asked": (
        "r = n + 0\nif NOTHING is not None:\n    if NOTHING > 0:\n        r = 1\n"
        "if n > 0:\n    if NOTHING is not None:\n        if NOTHING > 0:\n            r = 1", 3
    ),
    "several results are tensors": ("r = sign(n)", 3),
    "one result may be a number": ("r = number() // 2", -4),
    "defaults are what they were": ("r = late()", 2),
    "functions may be defaults": ("r = through(n)", 6),
    "functions run at compile time": ("r = tl.full((), half(7), tl.int32)", 3),
}  # fmt: skip
REFUSED = {
    "a counter behind its loop": ("for i in range(n):\n    pass\nr = i", "'i' has no value here"),
    "a counter behind its loop, where it may not be needed": (
        "for i in range(n):\n    pass\nr = i if n > 0 else n", "'i' has no value here"
    ),
    "a counter that was bound before": ("i = 1\nfor i in range(0):\n    pass\nr = i", "'i' has no value"),
    "what a branch makes of None": ("m = None\nif n > 0:\n    m = 1\nr = 2", "'m' is no tensor"),
    "what a branch makes of a dtype": ("m = tl.int32\nif n > 0:\n    m = tl.int8\nr = 2", "'m' is no tensor"),
    "what a branch of the compiler's makes of None": (
        "m = None\nif n > 5:\n    for i in range(2):\n        if K > 0:\n            m = 1\nr = 2", "'m' is no tensor"
    ),
    "what the device decides within a branch": ("m = None\nif n > 0:\n    if n > 5:\n        m = 1\nr = 2", "'m' is"),
    "what a branch decides for itself": ("m = None\nif n > 5:\n    k = n\n    if k:\n        m = 1\nr = 2", "'m' is"),
    "functions with another name": ("f = sign\nr = f(n)", "gives a function another name"),
    "several results that are numbers": ("r = several(n)", "returns in several places"),
    "no result at all": ("r = 1 if sometimes(n - 5) is None else 2", "returns in several places"),
    "steps that only the device knows": ("r = 0\nfor i in range(3, 0, 0 - n):\n    r += 1", "step is -3 at run time"),
    "counters without a sign": (
        "r = 0\nfor i in range((n - 5).to(tl.uint32), (n - 4).to(tl.uint32)):\n    r += 1", "overflows uint32"
    ),
    "steps of Python's range by name": ("r = 0\nfor i in range(0, 4, step=2):\n    r += 1", "'step'"),
    "tables at compile time": ("k: tl.constexpr = table()\nr = k[0]", "something else than a constant"),
    "tensors at compile time": ("r = half(n)", "something else than a constant"),
}  # fmt: skip
SOURCE = """
NOTHING = tl.constexpr(None)
TWO = tl.constexpr(2)
DEFAULT = tl.constexpr(2)


@triton.constexpr_function
def half(x):
    return x // 2


@triton.constexpr_function
def table():
    return [1]


@triton.jit
def pair(a, b):
    return a * 10 + b


@triton.jit
def sign(x):
    if x > 0:
        return x
    return 0 - x


@triton.jit
def number():
    return -7


@triton.jit
def several(x):
    if x > 0:
        return -7
    return 7


@triton.jit
def sometimes(x):
    if x > 0:
        return x


@triton.jit
def late(x: tl.constexpr = DEFAULT):
    return x


@triton.jit
def through(x, FN: tl.constexpr = sign):
    return FN(x) + FN(x)


DEFAULT = tl.constexpr(9)


@triton.jit
def kernel(a0, a1, K: tl.constexpr):
    n = tl.load(a0)
    tl.store(a1, 0)
BODY
    tl.store(a1, r)
"""


def run(body: str):
    return interpret(SOURCE.replace("BODY", textwrap.indent(body, "    ")), N, Out((1,), torch.int32), K=3)


@pytest.mark.parametrize("what", FOUND)
def test_kernels_are_what_the_compiler_makes_of_them(what: str):
    body, expected = FOUND[what]
    assert run(body).only.tolist() == [expected]


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_compiler_makes_of_it_is_not_known(what: str):
    body, said = REFUSED[what]
    reply = run(body).reply
    assert reply.outcome == "not_interpretable" and said in reply.reason, reply
