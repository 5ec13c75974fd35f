import ast
import textwrap

import pytest

from workers.tracer.needed import needed_part

WHOLE = """
import numpy as np
import torch
import triton

torch.manual_seed(0)
CONFIGS = [1]
CONFIGS.append(2)
UNUSED = [np.zeros(3)]
UNUSED.append(np.ones(3))


def part(x):
    return x + len(CONFIGS)


@triton.jit
def kernel(x):
    return part(x)


@triton.jit
def other(x):
    return x


def f(x):
    return kernel[(1,)](torch.empty_like(x))


x = torch.randn(3, device="cuda")
print(f(x))
assert torch.allclose(f(x), x)


@triton.testing.perf_report([])
def benchmark(size):
    return np.zeros(size)


benchmark.run()
"""


def kept(source: str, *entries: str) -> str:
    return ast.unparse(needed_part(ast.parse(textwrap.dedent(source)), entries or ("f",)))


def test_examples_benchmarks_and_what_only_they_use_are_left_out():
    left = kept(WHOLE)
    for said in ("CONFIGS.append(2)", "torch.manual_seed(0)", "def part", "def kernel", "def f", "import torch"):
        assert said in left
    for said in ("numpy", "UNUSED", "randn", "print", "assert", "benchmark", "def other"):
        assert said not in left


def test_lines_stay_where_they_are():
    tree = needed_part(ast.parse(WHOLE), ("f",))
    lines = {node.name: node.lineno for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert lines == {name: WHOLE[: WHOLE.index(f"def {name}(")].count("\n") + 1 for name in ("part", "kernel", "f")}


CHANGES = {
    "an attribute": "f.cache = {}",
    "an element": "TABLE['a'] = 1",
    "a method": "TABLE.update(a=1)",
    "a later binding": "TABLE = {'b': 2}",
    "a loop": "for key in 'ab':\n    TABLE[key] = 1",
    "a function with global": "def fill():\n    global TABLE\n    TABLE = {'c': 3}\nfill()",
    "a decorator": "f.register = lambda g: g\n@f.register\ndef g():\n    return 0",
    "an alias": "part = f.__dict__\nitem = part['a']\nitem.size = 3",
    "configurations in a loop": "for each in TABLE:\n    each.num_warps = 4",
    "a value of an unneeded function": "def make():\n    return 1\nTABLE.update(a=make())",
    "a registry": "def keep(g):\n    TABLE[g.__name__] = g\n    return g\n\n@keep\ndef g():\n    return 0",
    "the module's names": "globals()['TABLE'] = {}",
    "a text": "exec('TABLE = {}')",
    "an attribute by its text": "setattr(f, 'cache', {})",
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_a_needed_name_stays(what):
    change = CHANGES[what]
    left = kept("TABLE = {}\n\n\ndef f(x):\n    return TABLE\n\n\n" + change)
    assert ast.unparse(ast.parse(change)) in left


def test_a_module_without_the_entry_stays_whole():
    assert kept("import numpy\nx = 1\n") == "import numpy\nx = 1"


def test_names_that_a_function_binds_itself_are_not_the_modules():
    assert "randn" not in kept("import torch\n\n\ndef f(x):\n    y = x\n    return y\n\n\nx = y = torch.randn(3)\n")


def test_a_decorator_that_only_wraps_keeps_nothing_alive():
    wrapped = "import numpy\n\n\ndef wrap(g):\n    return g\n\n\n@wrap\ndef f(x):\n    return x\n"
    wrapped += "\n\n@wrap\ndef g(x):\n    return numpy\n"
    assert "numpy" not in kept(wrapped) and "def wrap" in kept(wrapped)
