import ast

import pytest

from service.operators.sources import (
    decorators,
    digest,
    dotted,
    jit_functions,
    launches,
    normalise,
    parse,
    render,
    without_texts,
)

SOURCE = '''
"""A module."""
import triton

@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    """A kernel."""
    cols = tl.arange(0, BLOCK)  # positions
    value = tl.load(x_ptr + cols)

def host(x):
    size = 4
    kernel[(size,)](x, BLOCK=size)
    return x
'''


def same(first, second):
    return digest(first) == digest(second)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # positions", ""),
        ('"""A kernel."""', '"""Another text."""'),
        ('"""A module."""\n', ""),
        ("cols", "columns"),
        ("value = ", "loaded    =  "),
        ("size", "width"),
        ("x_ptr + cols", "(x_ptr + (cols))"),
    ],
)
def test_what_does_not_matter(old, new):
    assert same(SOURCE, SOURCE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("size = 4", "size = 8"),
        ("x_ptr", "y_ptr"),
        ("host", "other"),
        ("BLOCK", "TILE"),
        ("tl.load(x_ptr + cols)", "tl.load(x_ptr)"),
    ],
)
def test_what_matters(old, new):
    assert not same(SOURCE, SOURCE.replace(old, new))


def test_normal_form_is_normal():
    assert normalise(normalise(SOURCE)) == normalise(SOURCE)
    assert '"""' not in normalise(SOURCE)
    assert "v0 = tl.arange(0, BLOCK)" in normalise(SOURCE)


@pytest.mark.parametrize(
    "body",
    [
        "a = 1\n    return a, locals()",
        "a = 1\n    def inner():\n        return a\n    return inner()",
        "global a\n    a = 1\n    return a",
        "a = 1\n    import math as b\n    return b, a",
        "try:\n        a = 1\n    except ValueError as b:\n        a = b\n    return a",
        "a = 1\n    match x:\n        case b:\n            return a, b",
        "a = 1\n    class b:\n        c = a\n    return b",
    ],
)
def test_functions_whose_locals_keep_their_names(body):
    assert "a = 1" in normalise(f"def f(x):\n    {body}")


def run(source):
    space = {}
    exec(source, space)
    return space["f"](5)


@pytest.mark.parametrize(
    "source",
    [
        "v0 = 7\ndef f(x):\n    a = x + v0\n    return a",
        "def f(v0):\n    a = v0 + 1\n    v1 = a * 2\n    return v1, a",
        "i = 3\ndef f(x):\n    a = [i for i in range(x)]\n    b = i\n    return a, b",
        "def f(x):\n    a = x\n    g = lambda a: a + 1\n    return g(a), (lambda b=a: b)()",
        "def f(x):\n    total = 0\n    for i in range(x):\n        total += i\n    return total, i",
        "def f(x):\n    if (y := x) > 1:\n        del x\n    return y",
        "def f(x):\n    a, *b = range(x)\n    return {'a': a, 'b': b}",
        "def f(x):\n    'only a text'\n",
    ],
)
def test_renaming_keeps_meaning(source):
    assert run(normalise(source)) == run(source)


@pytest.mark.parametrize(
    "source",
    ["def f(:", "x\0", "x = '\ud800'", "x = " + "(" * 300, "x = 0x" + "f" * 6000, "x = " + "-" * 100_000 + "1"],
    ids=["syntax", "null", "surrogate", "parentheses", "number", "depth"],
)
def test_unreadable_sources_have_a_digest_of_their_text(source):
    assert len(digest(source)) == 64
    assert digest(source) == digest(source)
    assert digest(source) != digest(source + " ")


def test_parse_and_render_raise_one_error():
    with pytest.raises(SyntaxError, match="gave up"):
        parse("x\ud800")
    deep = parse("x")
    for _ in range(5000):
        deep.body[0].value = ast.UnaryOp(ast.USub(), deep.body[0].value)
    with pytest.raises(SyntaxError, match="cannot write"):
        render(deep)


def test_dotted():
    assert dotted(ast.parse("tl.math.exp", mode="eval").body) == "tl.math.exp"
    assert dotted(ast.parse("f().exp", mode="eval").body) == ""


def test_texts_go_and_bodies_stay_valid():
    module = without_texts(parse("class A:\n    'text'\n\ndef f():\n    if x:\n        'text'\n"))
    assert parse(render(module))
    assert "text" not in render(module)


def test_jit_functions_and_their_launches():
    module = parse(SOURCE + "\n@triton.autotune(configs=[])\n@triton.jit\ndef tuned():\n    pass\n")
    assert list(jit_functions(module)) == ["kernel", "tuned"]
    assert decorators(jit_functions(module)["tuned"]) == ["triton.autotune", "triton.jit"]
    (launch,) = launches(module)
    assert launch.host.name == "host"
    assert ast.unparse(launch.subscript.slice) in ("(size,)", "size,")
    assert ast.unparse(launch.keywords["BLOCK"].value) == "size"
