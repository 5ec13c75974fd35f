"""Only kernels and plain constants of a candidate are extracted; host code never runs."""

import ast

import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.jit import JITFunction

from workers.interpreter.extract import ExtractedModule, extract_module
from workers.interpreter.faults import NotInterpretable

HEADER = "import math\nimport torch\nimport triton\nimport triton.language as tl\n"


def take(source: str) -> ExtractedModule:
    return extract_module(HEADER + source)


def test_imports_constants_and_functions_are_taken_over():
    taken = take(
        "try:\n    from triton.language.extra import libdevice\nexcept ImportError:\n    libdevice = None\n"
        "SIZE: int = 2 * math.prod((4, 8))\nSCALE = tl.constexpr(SIZE / 2)\nMOST = torch.finfo(torch.half).max\n"
        "ORDER: tl.constexpr = tl.constexpr(sum((1, round(2.2), pow(2, 3))) + sum(divmod(7, 2)))\n"
        "TABLE = {'a': [1, 2]}\n"
        "@triton.autotune([triton.Config({})], key=[])\n@triton.jit(do_not_specialize=['n'])\n"
        "def kernel(x, n, BLOCK: tl.constexpr = SIZE):\n    pass\n"
        "def helper(x):\n    return x\n"
        "wrapped = triton.heuristics({'N': lambda args: 1})(triton.jit(helper))\n"
    )
    assert (taken.namespace["SIZE"], taken.namespace["SCALE"].value) == (64, 32.0)
    assert (taken.namespace["MOST"], taken.namespace["ORDER"].value) == (65504.0, 15)
    kernel, wrapped = taken.namespace["kernel"], taken.namespace["wrapped"]
    assert type(kernel) is type(wrapped) is JITFunction and kernel.do_not_specialize == ["n"]
    assert [each.name for each in taken.definitions.values()] == ["kernel", "helper"]
    assert wrapped.fn is taken.namespace["helper"] and taken.left_out == {}


def test_kernels_that_a_class_holds_are_taken_without_the_class():
    taken = take(
        "SIZE = 4\n\n\nclass Scan:\n    SIZE = 8\n\n    @staticmethod\n    @triton.jit\n"
        "    def kernel(x, B: tl.constexpr):\n        tl.store(x, SIZE)\n\n"
        "    @classmethod\n    def forward(cls, x):\n        cls.kernel[(1,)](x)\n"
    )
    kernel = taken.namespace["kernel"]
    assert type(kernel) is JITFunction and [each.name for each in taken.definitions.values()] == ["kernel"]
    assert kernel.fn.__globals__["SIZE"] == 4, "a method sees names of the module"
    assert "Scan" in taken.left_out


def test_kernels_that_a_function_makes_are_taken_but_not_in_place_of_others():
    made = "def make():\n    @triton.jit\n    def kernel(x):\n        tl.store(x, 3)\n\n    return kernel\n"
    own = "@triton.jit\ndef kernel(x):\n    tl.store(x, 1)\n"
    for text, number in ((made, 3), (made + own, 1), (own + made, 1)):
        taken = take(text)
        assert f"tl.store(x, {number})" in ast.unparse(taken.definitions[taken.namespace["kernel"].fn])


def test_types_are_imported_for_whoever_writes_annotations():
    taken = take(
        "import typing\nfrom typing import Optional\nKnown = Optional[int]\nSIZE: typing.Final = 4\n"
        "@triton.jit\ndef kernel(x, SCALE: Optional[float], B: tl.constexpr):\n    pass\n"
    )
    assert taken.left_out == {} and taken.namespace["SIZE"] == 4
    assert [each.name for each in taken.definitions.values()] == ["kernel"]


@pytest.mark.parametrize("used", ["typing.cast(tl.dtype, x)", "cast(int, x)", "typing.sys.exc_info()"])
def test_kernels_may_not_call_what_is_there_for_types(used: str):
    with pytest.raises(NotInterpretable, match="host code"):
        take(f"import typing\nfrom typing import cast\n@triton.jit\ndef kernel(x):\n    y = {used}\n")


HOST = {
    "a call": "NAME = open('/nowhere/at/all')",
    "a call in a table": "NAME = [print('host code ran')]",
    "a call of what only looks plain": "float = tl.core.builtins.exec\nNAME = float('1 / 0')",
    "a member of Triton": "tl.cdiv = NAME = 3",
    "a condition": "NAME = 1\nif torch.cuda.is_available():\n    NAME = 2",
    "a loop": "NAME = 1\nfor NAME in (2, 3):\n    pass",
    "a sum": "NAME = 1\nNAME += 1",
    "a class": "class NAME:\n    pass",
    "what follows an import": "try:\n    import math\nexcept:\n    pass\nelse:\n    NAME = open('/nowhere')",
    "an import": "import os as NAME",
    "a walrus": "NAME = 1\nprint(NAME := 2)",
}


@pytest.mark.parametrize("what", HOST)
def test_a_name_that_host_code_binds_is_gone_and_its_line_known(what: str):
    before = triton.language.cdiv
    taken = take(HOST[what])
    assert "NAME" not in taken.namespace and "NAME" in taken.left_out
    assert triton.language.cdiv is before


def test_what_host_code_only_calculates_with_stays():
    taken = take("N = 1\nconfigs = [triton.Config({'N': N}) for N in (1, 2)]\nif __name__ == '__main__':\n    N = 3\n")
    assert taken.namespace["N"] == 1 and list(taken.left_out) == ["configs"]


def test_defaults_annotations_and_decorators_of_host_code_are_dropped():
    taken = take(
        "def host(*, x=print('host code ran')):\n    return 1 / 0\n"
        "@host\ndef plain(x: host() = host(), *, y=host()):\n    return x\n"
    )
    assert taken.namespace["plain"]() is None


def test_a_kernel_that_is_not_plain_stops_it_with_its_line():
    with pytest.raises(NotInterpretable, match="'kernel' has a statement 'global'") as stopped:
        take("@triton.jit\ndef kernel(a0):\n    global N\n    tl.store(a0, N)\n")
    assert stopped.value.line == 7


@pytest.mark.parametrize("given", ["lambda getattr: 1", "[1 for getattr in (1, 2) if 1]"])
def test_names_of_decorators_are_no_names_of_the_kernel(given: str):
    kernel = f"@triton.heuristics({{'n': {given}}})\n@triton.jit\ndef kernel(x, n):\n"
    assert "kernel" in take(kernel + "    tl.store(x, n)\n").namespace
    with pytest.raises(NotInterpretable, match="Python's 'getattr'"):
        take(kernel + "    tl.store(x, getattr(x, 'value', 0))\n")


FUNCTION = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef part(x{default}):\n    return x\n"


def test_functions_have_names_of_their_own():
    plain = FUNCTION.format(default="")
    extract_module(plain + plain)
    extract_module(plain + "same = part\n")
    with pytest.raises(NotInterpretable, match="two functions that the compiler reads are called 'part'"):
        extract_module(plain + "first = part\n" + plain)


def test_a_function_may_be_made_a_kernel_of_several_times():
    plain = FUNCTION.format(default="").replace("@triton.jit\n", "") + "one = triton.jit(part)\n"
    taken = extract_module(plain + "two = triton.jit(part)\n")
    one, two = taken.namespace["one"], taken.namespace["two"]
    assert isinstance(one, JITFunction) and isinstance(two, JITFunction)
    assert one is not two and one.fn is two.fn


def test_defaults_do_not_change():
    for default in (", n=1", ", n: tl.constexpr = tl.constexpr(2)", ", n=(1, 2)", ", dtype=tl.float32", ", f=tl.exp"):
        extract_module(FUNCTION.format(default=default))
    extract_module(
        FUNCTION.format(default="") + "@triton.jit\ndef other(x, FN: tl.constexpr = part):\n    return FN(x)\n"
    )
    for default in (", n=[]", ", n={1: []}"):
        with pytest.raises(NotInterpretable, match="a default that may change"):
            extract_module(FUNCTION.format(default=default))


def test_a_default_is_no_function_that_has_lost_its_name():
    lost = FUNCTION.format(default="") + "@triton.jit\ndef other(x, FN: tl.constexpr = part):\n    return FN(x)\n"
    with pytest.raises(NotInterpretable, match="a default that may change"):
        extract_module(lost + FUNCTION.format(default=""))


@pytest.mark.parametrize(
    "made",
    [
        "from triton.experimental import gluon\n@gluon.jit\ndef g(x):\n    pass\n",
        "import triton.experimental.gluon as own\n@own.jit\ndef g(x):\n    pass\n",
        "import triton.experimental.gluon\n@triton.experimental.gluon.jit\ndef g(x):\n    pass\n",
        "from triton.experimental.gluon import jit as j\n@j\ndef g(x):\n    pass\n",
        "from triton.experimental import gluon\ndef f(x):\n    pass\ng = triton.autotune([], [])(gluon.jit(f))\n",
    ],
)
def test_a_launched_kernel_in_gluon_is_said_to_be_one(made: str) -> None:
    source = "import triton\n" + made
    extract_module(source, ["other"])
    with pytest.raises(NotInterpretable, match="'g' is written in Gluon, which is not interpreted: judge it on a card"):
        extract_module(source, ["g"])


def test_a_kernel_under_a_plain_condition_is_taken_over():
    taken = take(
        "try:\n    import triton\n    FOUND = True\nexcept ImportError:\n    FOUND = False\n"
        "if FOUND and triton is not None:\n    @triton.jit\n    def kernel(x):\n        pass\n"
        "elif torch.nowhere:\n    SIZE = 1\nelse:\n    def kernel(x):\n        pass\n"
        "if not FOUND:\n    FOUND = 2\nelse:\n    SIZE = 3\n"
    )
    assert [each.name for each in taken.definitions.values()] == ["kernel"]
    assert (taken.namespace["FOUND"], taken.namespace["SIZE"]) == (True, 3)


def test_a_condition_of_host_code_leaves_out_what_it_binds():
    taken = take("if torch.cuda.is_available():\n    SIZE = 1\nif unknown:\n    OTHER = 1\n")
    assert not {"SIZE", "OTHER"} & taken.namespace.keys() and {"SIZE", "OTHER"} <= taken.left_out.keys()


def test_functions_and_imports_are_guessed_where_host_code_decides():
    taken = take(
        "if later('triton', '3.0.0'):\n    try:\n        from triton.language.extra.libdevice import rsqrt\n"
        "    except ModuleNotFoundError:\n        from triton.language.extra.cuda.libdevice import rsqrt\n"
        "else:\n    from triton.language.math import rsqrt\n"
        "if later('triton', '3.0.0'):\n    from somewhere import tanh\n"
        "else:\n    from triton.language import exp as tanh\n"
        "if has_triton():\n    SIZE = 1\n    @triton.jit\n    def kernel(x):\n        pass\n"
    )
    assert taken.namespace["rsqrt"] is libdevice.rsqrt and taken.namespace["tanh"] is tl.exp
    assert [each.name for each in taken.definitions.values()] == ["kernel"] and "SIZE" not in taken.namespace


def test_what_a_try_binds_before_host_code_is_taken_over():
    taken = take(
        "try:\n    import triton\n    FOUND = True\nexcept ImportError:\n    FOUND = False\n    print('install it')\n"
        "if FOUND:\n    SIZE = 1\n"
    )
    assert (taken.namespace["FOUND"], taken.namespace["SIZE"]) == (True, 1)


PUBLISHED = '''
from packaging import version

try:
    import triton
    import triton.language as tl

    HAS_TRITON = version.parse(triton.__version__) > version.parse("2.0")
except ImportError:
    triton = tl = None
if not HAS_TRITON:
    triton = MagicMock()
    tl = MagicMock()


def named(grid, kernel, args):
    return {"name": kernel.name}


@triton.jit(launch_metadata=named, do_not_specialize=["n"])
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Stores nothing.
    \t
    That is all.
    """
    if BLOCK > 1:
        "A text of its own."
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)
'''


def test_the_language_stays_where_host_code_looks_for_it():
    taken = extract_module(PUBLISHED, ["kernel"])
    assert taken.namespace["tl"] is tl and {"HAS_TRITON", "version"} <= taken.left_out.keys()
    kernel = taken.namespace["kernel"]
    assert isinstance(kernel, JITFunction)
    assert kernel.launch_metadata is None and kernel.do_not_specialize == ["n"]
    (definition,) = kernel.parse().body
    assert list(map(ast.dump, definition.body)) == list(map(ast.dump, taken.definitions[kernel.fn].body))
