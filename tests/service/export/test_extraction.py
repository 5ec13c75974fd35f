"""What is lifted is what Triton compiles and nothing else, whatever a candidate is made of."""

import ast
from pathlib import Path

import pytest

from service.export.extraction import NotExtractable, lift
from service.operators.catalogue import load_catalogue
from service.operators.sources import GLUON_JIT, jit_functions, parse
from tests.service.export.pieces import SOURCE
from workers.inductor_seeds.runtime import COMBINE

HEAD = "import math\nimport torch\nimport triton\nimport triton.language as tl\n"
HEAD += "from triton.language.extra import libdevice\n"


def kernel(body: str, *, before: str = "", head: str = "@triton.jit", parameters: str = "x, N: tl.constexpr") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{HEAD}{before}\n{head}\ndef k({parameters}):\n{lines}\n"


def test_functions_come_with_what_they_need_and_without_what_they_say() -> None:
    lifted = lift(SOURCE, ["double_kernel", "_scale"])
    assert list(lifted.functions) == ["_scale", "double_kernel"]
    assert lifted.parameters["_scale"] == ("value", "BY")
    text = "\n".join((*lifted.imports, *lifted.constants, *lifted.functions.values()))
    ast.parse(text)
    for gone in ("SECRET", "print", "autotune", "comment", "says of itself", "def launch", "HALF"):
        assert gone not in text, gone
    assert lifted.functions["double_kernel"].startswith("@triton.jit\ndef double_kernel(x_ptr")
    assert "from triton.language.extra import libdevice" in lifted.imports


def test_constants_bring_the_constants_that_they_are_made_of() -> None:
    before = "HALF: tl.constexpr = 1 / math.log(2)\nWIDE = tl.constexpr(-HALF * float('inf'))\nOTHER = 3\n"
    lifted = lift(kernel("tl.store(x, WIDE)", before=before), ["k"])
    assert lifted.constants == ("HALF: tl.constexpr = 1 / math.log(2)", "WIDE = tl.constexpr(-HALF * float('inf'))")
    assert "import math" in lifted.imports
    assert lifted.bound >= {"HALF", "WIDE", "k"} and "OTHER" not in lifted.bound


def test_only_options_that_count_stay_at_the_decorator() -> None:
    head = "@triton.jit(noinline=True, do_not_specialize=['x'], repr=lambda _: __import__('os').system('id'))"
    assert (
        "@triton.jit(noinline=True, do_not_specialize=['x'])\n" in lift(kernel("pass", head=head), ["k"]).functions["k"]
    )
    odd = lift(kernel("pass", parameters="x: print(1), y: tl.int64, z: tl.constexpr = -3"), ["k"])
    assert "def k(x, y: tl.int64, z: tl.constexpr=-3)" in odd.functions["k"]


def honest() -> list[str]:
    """Kernels that people and TorchInductor write: the catalogue's seeds, styles by hand, what drafts bring along."""
    seeds = [seed for operator in load_catalogue().values() for seed in operator.seeds]
    styles = [path.read_text() for path in sorted((Path(__file__).parents[2] / "gpu/kernels").glob("*.py"))]
    return [*seeds, *styles, HEAD + "\n".join(COMBINE.values())]


def test_honest_kernels_are_lifted() -> None:
    named = {source: [*jit_functions(parse(source)), *jit_functions(parse(source), GLUON_JIT)] for source in honest()}
    assert sum(bool(names) for names in named.values()) > 20
    assert sum("@gluon.jit" in source for source in named) > 10
    refused = []
    for source, names in named.items():
        try:
            assert set(lift(source, names).functions) == set(names)
        except NotExtractable as refusal:
            refused.append(str(refusal))
    assert refused == []


HOSTILE = {
    "a module behind torch": "torch.os.system('id')",
    "a module behind the language": "tl.core.os.system('id')",
    "a module behind mathematics": "tl.math.core.os.system('id')",
    "a module behind libdevice": "libdevice.core.os.system('id')",
    "a module in a variable": "m = tl.extra\nm.cuda.os.system('id')",
    "a module itself": "m = tl\nm.store(x, 1)",
    "a builtin of Triton": "getattr(tl, 'core')",
    "a builtin under cover": "if N:\n    getattr = 1\ny = getattr(tl, 'core')",
    "a module under cover": "if N:\n    tl = 1\ntl.store(x, 1)",
    "a builtin of Python": "eval('1')",
    "an import": "import os",
    "a function within": "def inner():\n    pass",
    "a lambda": "y = (lambda: 1)()",
    "a comprehension": "y = [i for i in range(3)]",
    "a private attribute": "x.__class__.__mro__",
    "a handle of the compiler": "x.handle.dump()",
    "a text that prints": "tl.static_print('\\x1b[2J')",
    "a formatted text": "y = f'{x}'",
    "a walrus": "tl.store(x, (y := 1))",
    "a global": "global y\ny = 1",
    "a try": "try:\n    pass\nfinally:\n    pass",
    "a with": "with x:\n    pass",
    "a host function": "host(x)",
    "a computed constant": "tl.store(x, BAD)",
    "bytes": "y = b'1'",
    "a name that looks like another": "x\u0660 = 1\ny = x\u0660",
}


GLUON = "from triton.experimental import gluon\nimport triton.experimental.gluon.language as gl\n"
GLUON += "from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma\n"


def test_gluon_is_lifted_with_its_layouts_and_the_words_of_several_releases() -> None:
    before = GLUON + 'load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared\n'
    before += "LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], warps_per_cta=[4], order=[0])\n"
    before += "WIDE = gl.constexpr(gl.SliceLayout(0, LAYOUT))\n"
    body = "load_tile(x, [0], x, x)\ngl.store(x + gl.arange(0, N, WIDE), 1)\nmbarrier.wait(x, 0)"
    code = lift(kernel(body, before=before, head="@gluon.jit(noinline=True)"), ["k"])
    assert code.functions["k"].startswith("@gluon.jit(noinline=True)\n")
    assert "from triton.experimental import gluon" in code.imports and len(code.constants) == 3
    assert "gluon" not in " ".join(lift(kernel("pass"), ["k"]).imports), "Triton alone needs no Gluon"


@pytest.mark.parametrize(
    "constant",
    [
        'getattr(tma, "ir", None)',
        'getattr(tma, "store_wait", print("x"))',
        'getattr(gl, "nvidia", None) or tma.store_wait',
        'tma.store_wait or print("x")',
        'getattr(tma, NAME, None) or tma.store_wait',
        'gl.BlockedLayout(*[1])',
        'gl.BlockedLayout(**{"order": [0]})',
        'gl.BlockedLayout(order=[print("x")])',
        'gl.zeros(shape=[1])',
        "[i for i in [0]]",
    ],
)  # fmt: skip
def test_a_constant_of_gluon_is_a_word_or_a_layout(constant: str) -> None:
    with pytest.raises(NotExtractable):
        lift(
            kernel("gl.static_assert(BAD)", before=f"{GLUON}NAME = 'ir'\nBAD = {constant}\n", head="@gluon.jit"), ["k"]
        )
    own = f"{GLUON}def getattr(*given):\n    return given\n\nBAD = getattr(tma, 'store_wait', None)\n"
    with pytest.raises(NotExtractable):
        lift(kernel("gl.static_assert(BAD)", before=own, head="@gluon.jit"), ["k"])


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_else_is_lifted(body: str) -> None:
    before = "def host(x):\n    return x\n\n\nBAD = __import__('os').system('id')\n"
    with pytest.raises(NotExtractable):
        lift(kernel(body, before=before), ["k"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": "x=__import__('os').system('id')"}, "a constant is computed by a Call"),
        ({"parameters": "*x"}, "not plain"),
        ({"parameters": "tl"}, "shadows another name"),
        ({"head": "@print"}, "not decorated with"),
        ({"head": "@triton.jit(do_not_specialize=[print('x')])"}, "not a literal"),
        ({"head": "@triton.jit(do_not_specialize=['x\\'); import os'])"}, "neither a flag nor"),
        ({"before": "import os as tl\n"}, "in host code"),
        ({"before": "from os import system as torch\n"}, "in host code"),
    ],
)
def test_what_surrounds_a_function_is_held_against_the_list_too(changes: dict[str, str], said: str) -> None:
    with pytest.raises(NotExtractable, match=said):
        lift(kernel("pass", **changes), ["k"])


def test_what_cannot_be_read_or_found_is_refused() -> None:
    for source, name in (("def (", "k"), (kernel("pass"), "x'); import os"), (f"{HEAD}k = 3\n", "k")):
        with pytest.raises(NotExtractable):
            lift(source, [name])
    deep = kernel("y = " + "(" * 90 + "1" + ")" * 90)
    assert lift(deep, ["k"]).functions["k"].endswith("y = 1")
    with pytest.raises(NotExtractable):
        lift(kernel("y = " + "-" * 5000 + "1"), ["k"])
