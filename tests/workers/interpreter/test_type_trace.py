"""The interpreter is compared with the compiler's record, and treats loops like the compiler."""

import pytest

from tests.workers.interpreter.stage import BODY, Out, X, interpret, interpret_compiled, sample
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.type_trace import parts

LOOP = "n = pid * 0\n    m = n\n    {}:\n        m = n\n        n = n + 1\n    y = x + m"
EMULATED = {
    "an alias is not carried": (LOOP.format("for k in range(3)"), 0),
    "an alias is not carried by while": (LOOP.format("while n < 3"), 0),
    "a tuple of what is carried is not": (
        "n = pid * 0\n    t = (n, n)\n    for k in range(3):\n        t = (n, n)\n        n += 1\n    y = x + t[0]", 0
    ),
    "an alias is carried by an unrolled loop": (LOOP.format("for k in tl.static_range(3)"), 2),
    "an alias that a branch of the device's binds is not carried": (
        LOOP.format("for k in range(3)").replace("m = n\n        n =", "if n < 9:\n            m = n\n        n ="), 0
    ),
    "what is bound in both branches of the device's is carried": (
        "n = pid * 0\n    m = n\n    for k in range(3):\n        if n < 9:\n            m = n + 0\n        else:\n"
        "            m = n\n        n = n + 1\n    y = x + m", 2
    ),
    "the one before is carried": (
        "n = pid + 1\n    m = pid * 0\n    for k in range(3):\n        m = n\n        n = n + 1\n    y = x + m", 3
    ),
    "two that change places": (
        "m = pid * 0\n    n = pid + 1\n    for k in range(3):\n        m, n = n, m + n\n    y = x + m", 2
    ),
    "in every turn of an outer loop": (
        "n = pid * 0\n    s = n\n    for j in range(2):\n        m = n\n        for k in tl.range(2):\n"
        "            m = n\n            n += 1\n        s += m\n    y = x + s", 2
    ),
    "a compile-time value by another name": ("k: tl.constexpr(tl.constexpr) = -7\n    y = x + k // 2", -4),
    "turns with an end by name": ("y = x\n    for k in tl.range(2, arg2=5):\n        y += 1", 3),
    "turns to a byte that has a sign in the loop": (
        "y = x\n    for k in range(-60, (pid + 200).to(tl.uint8)):\n        y += 1", 4
    ),
    "turns to a bit that has a sign in the loop": ("y = x\n    for k in range(-3, pid == 0):\n        y += 1", 2),
    "branches of unrolled turns": (
        "y = x\n    for j in tl.static_range(2):\n        for k in tl.static_range(3):\n            if j == k:\n"
        "                y += 1\n        if j > 0:\n            y += 10", 12
    ),
    "the counter of an unrolled loop behind it": (
        "for s in tl.static_range(3):\n        s\n    y = x + s\n    s += 5\n    y += s", 9
    ),
    "a counter that is what it was": (
        "for s in tl.static_range(4):\n        s\n    y = x\n    for k in range(3):\n        y += s\n"
        "        for s in tl.static_range(2):\n            s\n    y += s", 12
    ),
    "whether something is a tensor": (
        "y = x\n    for s in tl.static_range(2):\n        y += 1 if isinstance(s, tl.tensor) else 10\n"
        "    y += 100 if isinstance(pid, tl.tensor) else 1", 120
    ),
    "lists of tuples' parts": (
        "u, v = [part + 1 for part in (x, x * 0)]\n    t = (u, v)\n    for k in range(2):\n"
        "        t = [part * 2 for part in t]\n    y = t[0] - 3 * x + t[1]", 8
    ),
    "lists of constants, part by part": (
        "y = x\n    for s in tl.static_range(2):\n        t = [x * 0 + (n + s if n > s else 0) for n in (1, 2)]\n"
        "        y += t[0] + 10 * t[1]", 51
    ),
    "annotations for people": ("s: torch.Tensor = x + 1\n    y: tl.tensor = s", 1),
    "what only asserts and prints": (
        "tl.static_assert(SIZE == 3 or FLAG == 2, 'a')\n    tl.static_print(SIZE + 1)\n    print('b', x + 1)\n"
        "    assert SIZE > 1, 'c'\n    y = x + SIZE", 3
    ),
    "errors that constants leave out": (
        "if SIZE == 4:\n        raise ValueError('for 3 alone')\n    if not FLAG:\n        raise NotImplementedError\n"
        "    y = x + SIZE", 3
    ),
    "names of the module's functions in branches and loops": (
        "y = x\n    for more in range(3):\n        T = more + 1\n        if T > 1:\n            max = T\n"
        "            y += max", 5
    ),
    "specialisations of a function": ("y = more(x, SIZE) + more(x, 0) - x + more(pid, None)", 3),
}  # fmt: skip
REFUSED = {
    "a tuple of other parts": (
        "y = x\n    t = (pid, None)\n    for k in range(2):\n        if t[0] is None:\n            y += 1\n"
        "        t = (None, pid + 1)",
        "has (int32, NoneType None) here, and the interpreter (NoneType None, int32)",
    ),
    "a tuple with a part of another sign": (
        "t = (pid,)\n    for k in range(2):\n        t = (pid.to(tl.uint32),)\n    y = x + t[0]",
        "has (int32) here, and the interpreter (uint32)",
    ),
    "what an annotation binds in a branch": (
        "z = None\n    if pid >= 0:\n        z: int = 5\n    y = x if z is None else x + 1",
        "has NoneType None here, and the interpreter int32",
    ),
    "numbers of a constant": (
        "y = x if (T[0] > T[1]) is None else x + 1",
        "has NotImplementedType NotImplemented here, and the interpreter bool False",
    ),
    "a counter that a branch of the device's changes": (
        "for s in tl.static_range(4):\n        s\n    if pid >= 0:\n        for s in tl.static_range(2):\n"
        "            s\n    s += 1\n    y = x + s",
        "has int 3 here, and the interpreter int 1",
    ),
    "a constant that is none": ("k: tl.constexpr = pid < 0\n    y = x if not k else x + 1", "tl.constexpr annotates"),
}  # fmt: skip
TABLE = """
T = tl.constexpr((1, 2.5))


@triton.jit
def more(x, n):
    if n is None:
        return x.to(tl.float32)
    else:
        for _ in tl.static_range(n):
            x += 1
        return x
"""


def run(body: str):
    return interpret_compiled(TABLE + BODY.format(body), X, Out((4,)), FLAG=True, SIZE=3)


@pytest.mark.parametrize("case", EMULATED)
def test_what_the_compiler_makes_of_it_is_interpreted(case: str) -> None:
    body, more = EMULATED[case]
    assert run(body).only.tolist() == [each + more for each in X.tolist()]


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_compiler_reads_in_another_way_is_not(case: str) -> None:
    body, hint = REFUSED[case]
    reply = run(body).reply
    assert reply.outcome == "not_interpretable"
    assert hint in reply.reason
    assert reply.line is not None


def test_what_a_module_calls_range_evaluates_its_bound_as_the_compiler_does() -> None:
    body = "tl.store(a1, 0.0)\n    y = x\n    for k in range(tl.atomic_add(a1, 2.0).to(tl.int32) + 1):\n        y += 1"
    assert run(body).only.tolist() == [3, 4, 5, 6]
    renamed = interpret_compiled("range = tl.range\n" + BODY.format(body), X, Out((4,)), FLAG=True, SIZE=3)
    assert renamed.only.tolist() == [1, 2, 3, 4]


def test_what_is_annotated_is_evaluated_as_often_as_by_the_compiler() -> None:
    body = "tl.store(a1, 0.0)\n    y: {} = x + tl.atomic_add(a1, 1.0)"
    assert run(body.format("torch.Tensor")).only.tolist() == [1, 2, 3, 4]
    assert run(body.format("torch.Tensor").replace(": torch.Tensor", "")).only.tolist() == X.tolist()
    kernel = "@triton.jit\ndef kernel(a0, a1):\n    y{} = tl.load(a0)\n    tl.store(a1, y)\n"
    moved = [sample(kernel.format(said), X, Out((4,))).moved_bytes for said in ("", ": tl.tensor")]
    assert moved == [8, 8]


def test_without_a_record_nobody_is_held_to_it() -> None:
    kernel = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.load(a0))\n"
    assert interpret(kernel, X, Out((1,))).only == 0
    assert interpret_compiled(kernel, X, Out((1,))).only == 0


def test_a_parameter_that_nobody_stores_to_is_like_any_other() -> None:
    kernel = "@triton.jit\ndef kernel(a0: tl.const, a1):\n    i = tl.arange(0, 4)\n    x = a0\n    x += i\n"
    assert interpret_compiled(f"{kernel}    tl.store(a1 + i, tl.load(x))\n", X, Out((4,))).only.equal(X)


def test_parts_are_those_of_a_tuple() -> None:
    assert parts(None, (1, 2), str) == ("1", "2")
    with pytest.raises(NotInterpretable, match="something else than a tuple"):
        parts(None, [1, 2], str)
