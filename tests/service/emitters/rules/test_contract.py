"""What every rule of the table must do, on every kernel it applies to."""

import ast
import random
import re

import pytest

from service.emitters.rules import RULES
from service.operators.sources import digest
from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import ARGUMENTS, rewritten, seed, small

KERNELS = [(operator, small(operator)) for operator in ARGUMENTS]
KERNELS += LOOPED.items()
KERNELS += [
    ("layernorm", re.sub(", (1024|2048|4096)", ", 16", rewritten("chunk_row", seed("layernorm")))),
    ("rmsnorm", rewritten("persistent", small("rmsnorm"))),
    ("softmax", rewritten("rows_tile", small("softmax"))),
    ("matmul", rewritten("tensor_descriptors", rewritten("tensor_descriptors", small("matmul")))),
    ("matmul", small("matmul").replace("b, total)", "b, total, input_precision='ieee')")),
    ("matmul", small("matmul").replace("b, total)", "b, total, input_precision='tf32x3')")),
]

ODD_SOURCES = {
    "empty": "",
    "no python": "def f(:",
    "null byte": "x = 1\0",
    "lone surrogate": "x = '\ud800'",
    "nested": "x = " + "(" * 500 + "1" + ")" * 500,
    "deep sum": "x = " + "1+" * 20000 + "1",
    "long number": "x = " + "9" * 6000,
    "hex number": "x = 0x" + "f" * 6000,
    "no kernel": "import torch\ndef rmsnorm(x, weight):\n    return x",
    "class": "class A:\n    def rmsnorm(self): ...",
    "only a kernel": seed("softmax").split("def softmax(")[0],
    "only a host": "def softmax" + seed("softmax").split("def softmax")[1],
    "no imports": seed("softmax").replace("import", "#"),
    "other names": seed("softmax").replace("tl.", "language.").replace("as tl", "as language"),
    "empty kernel": "import torch\nimport triton\nimport triton.language as tl\n\n@triton.jit\ndef k():\n    pass\n\n"
    "def f(x):\n    k[(1,)]()\n    return x\n",
    "kernel passed on": seed("softmax").replace("softmax_kernel[", "print(softmax_kernel) or softmax_kernel["),
    "starred": seed("softmax").replace("(x, y, n_cols,", "(*[x, y, n_cols],"),
    "loads nothing": seed("gelu").replace("tl.load(x_ptr + offsets, mask=mask, other=0.0)", "tl.load()"),
    "odd arguments": seed("gelu").replace("tl.arange(0, BLOCK)", "tl.arange(BLOCK)").replace("tl.sigmoid(", "tl.exp("),
    "endless names": seed("softmax").replace("mask = cols < n_cols", "mask = other\n    other = mask\n    mask = mask"),
    "doubling names": seed("softmax").replace(
        "    y = numerator", "".join(f"    a{i + 1} = a{i} & a{i}\n" for i in range(200)) + "    y = numerator"
    ),
    "doubling elements": LOOPED["softmax"].replace(
        "        top = ", "".join("        part = part + part\n" for i in range(200)) + "        top = "
    ),
    "no arguments": seed("softmax").replace("tl.max(x, axis=0)", "tl.max()").replace("tl.exp(", "tl.exp2() + (")
    + "\n@triton.jit\ndef other():\n    tl.exp()\n    tl.store()\n    tl.program_id()\n    tl.zeros()\n",
}


@pytest.mark.parametrize("name", RULES)
def test_keeps_what_a_kernel_computes(name, assert_same):
    applied = 0
    for draw, (operator, source) in enumerate(KERNELS):
        after = RULES[name].rewrite(source, random.Random(draw))
        if after is not None:
            applied += 1
            assert digest(after) != digest(source)
            assert_same(source, after, operator)
    assert applied > 0


@pytest.mark.parametrize("name", RULES)
def test_equal_chance_gives_an_equal_source(name):
    for _, source in KERNELS[::4]:
        assert RULES[name].rewrite(source, random.Random(5)) == RULES[name].rewrite(source, random.Random(5))


@pytest.mark.parametrize("name", RULES)
def test_sites_leave_the_tree_as_it_is(name):
    for _, source in KERNELS[::2]:
        module = ast.parse(source)
        list(RULES[name].sites(module))
        assert ast.dump(module) == ast.dump(ast.parse(source))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("source", ODD_SOURCES.values(), ids=ODD_SOURCES)
def test_odd_sources_never_raise(name, source):
    after = RULES[name].rewrite(source, random.Random(0))
    assert after is None or ast.parse(after)


def test_names_and_meanings():
    assert all(rule.name == name and rule.meaning for name, rule in RULES.items())
    assert len({rule.meaning for rule in RULES.values()}) == len(RULES)
