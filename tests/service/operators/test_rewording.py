"""Rewording changes every name that may change, the layout and the comments, and nothing else."""

import ast

import pytest

from service.operators.catalogue import load_catalogue
from service.operators.rewording import reword
from service.operators.sources import jit_functions, normalise, parse
from tests.service.export.pieces import SOURCE

CATALOGUE = load_catalogue()
KEPT = {"lightning_attention": {"dtype"}, "ssd_chunk_scan": {"dtype"}}
"""Parameters of kernels that are called like a keyword of somebody else's function."""


def names(source):
    """What the kernels of a source and their parameters are called."""
    kernels = jit_functions(parse(source))
    return {*kernels, *(node.arg for kernel in kernels.values() for node in kernel.args.args)}


def outline(source):
    """A program without any names."""
    return [type(node) for node in ast.walk(parse(source))]


@pytest.mark.parametrize("name", CATALOGUE)
def test_kernels_of_the_catalogue_keep_no_name_and_all_else(name):
    for source in CATALOGUE[name].seeds:
        after = reword(source)
        assert names(after) & names(source) == KEPT.get(name, set())
        assert outline(after) == outline(normalise(source))
        assert len(after.splitlines()) == 2 * len(normalise(source).splitlines())


def test_names_are_followed_wherever_they_are_passed():
    after = reword(SOURCE)
    assert names(after).isdisjoint(names(SOURCE))
    assert not {"BLOCK", "BY", "FUNCTION", "double_kernel", "_scale"} & set(ast.unparse(parse(after)).split("'"))
    assert "def double(x, by):" in after and "def double_backward(grad_y, x, y, by):" in after
    block = jit_functions(parse(after)).popitem()[1].args.args[-1].arg
    assert f"{{'{block}': 256}}" in after and f"['{block}']" in after


KERNEL = """
import torch, triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"key": 64, "mode": 1}, num_warps=2)], key=["axis"])
@triton.jit
def kernel(x, axis, key: tl.constexpr, mode: tl.constexpr, num_warps: tl.constexpr):
    tl.store(x, tl.sum(tl.arange(0, key), axis=0) + axis)

def host(x, mode="other"):
    options = dict(mode=mode)
    kernel[(1,)](x, 3, **options)
    return torch.empty(4, device="mode") if mode == "axis" else launch(x, kernel)

def launch(x, kernel):
    return x
"""


def test_what_others_go_by_is_kept():
    after = reword(KERNEL)
    (kernel,) = jit_functions(parse(after)).values()
    x, axis, key, mode, warps = (node.arg for node in kernel.args.args)
    assert kernel.name == "kernel", "a parameter of a host function is called so too"
    assert (axis, mode, warps) == ("axis", "mode", "num_warps")
    assert {x, key}.isdisjoint({"x", "key"})
    assert f"{{'{key}': 64, 'mode': 1}}" in after and "key=['axis']" in after and "def host(x, mode='other'):" in after


def test_a_text_over_several_lines_is_not_laid_out_anew():
    source = "NOTE = f'''{1}\n  two'''\n"
    assert ast.dump(parse(reword(source))) == ast.dump(parse(source))


@pytest.mark.parametrize("source", ["def f(:", "x = 1\0", "x = " + "1+" * 20000 + "1"])
def test_what_cannot_be_read_is_said(source):
    with pytest.raises(SyntaxError):
        reword(source)
