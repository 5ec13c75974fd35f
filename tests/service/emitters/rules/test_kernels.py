import ast

import pytest

from service.emitters.rules.kernels import (
    assigned_once,
    declare,
    grid,
    in_clusters,
    introduce,
    is_private,
    is_settled,
    kernels,
    origins,
    set_grid,
    writes_apart,
)
from service.emitters.rules.patterns import expression, text
from service.operators.sources import launches, parse, render
from tests.service.emitters.samples import DOUBLED, candidate, kernel_of, seed

SOURCE = candidate(DOUBLED)


def test_a_kernel_and_what_its_launch_passes():
    kernel = kernel_of(SOURCE)
    (launch,) = kernel.launches
    assert kernel.parameters == ["x_ptr", "y_ptr", "n_cols", "BLOCK"]
    assert kernel.constexprs == {"BLOCK"}
    assert kernel.pointers() == ["x_ptr", "y_ptr"]
    assert text(kernel.argument(launch, "n_cols")) == "n_cols"
    assert text(kernel.argument(launch, "BLOCK")) == "triton.next_power_of_2(n_cols)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kernel[(n_rows,)](x, y,", "kernel[(n_rows,)](*[x], y,"),
        ("BLOCK=triton", "**{}, BLOCK=triton"),
        ("n_cols, BLOCK=triton.next_power_of_2(n_cols))", "n_cols)"),
        ("BLOCK: tl.constexpr", "BLOCK: tl.constexpr = 4"),
        ("x_ptr, y_ptr", "x_ptr, *, y_ptr"),
        ("@triton.jit", "@triton.heuristics({})\n@triton.jit"),
        ("import triton.language as tl", "from triton import language as tl"),
        ("    return y", "    return kernel"),
        ("    kernel[(n_rows,)]", "    run = lambda: kernel[(n_rows,)]"),
        ("    return y", "    return y\n\ndef kernel(x):\n    return x"),
    ],
)
def test_a_kernel_that_is_not_understood(old, new):
    assert old in SOURCE
    assert not list(kernels(parse(SOURCE.replace(old, new))))


@pytest.mark.parametrize(
    ("written", "host", "extents"),
    [
        ("(n_rows, 2)", "", ["n_rows", "2"]),
        ("grid", "grid = (n_rows,)", ["n_rows"]),
        ("lambda meta: (triton.cdiv(n_cols, meta['BLOCK']),)", "", ["triton.cdiv(n_cols, 128)"]),
        ("grid", "grid = lambda m: (triton.cdiv(n_cols, m['BLOCK']),)", ["triton.cdiv(n_cols, 128)"]),
        ("lambda meta: (meta['OTHER'],)", "", None),
        ("lambda meta: (len(meta),)", "", None),
        ("n_rows", "", None),
        ("grid", "grid = (1,)\n    grid = (2,)", None),
    ],
)
def test_grids(written, host, extents):
    source = candidate(DOUBLED, passed="x, y, n_cols, BLOCK=128", grid=written, host=host)
    found = grid(launches(parse(source))[0])
    assert (found and [text(extent) for extent in found]) == extents


def test_a_new_grid_replaces_the_variable_that_carried_the_old_one():
    module = parse(candidate(DOUBLED, grid="grid", host="grid = (n_rows,)"))
    set_grid(launches(module)[0], ["n_rows // 2"])
    assert "grid =" not in render(module)
    assert "kernel[n_rows // 2,](x" in render(module)


def test_adding_parameters_and_host_variables():
    kernel = kernel_of(candidate(DOUBLED, passed="x, y, n_cols, BLOCK=128, num_warps=4"))
    (launch,) = kernel.launches
    name = kernel.add_parameter("y_ptr", lambda item: declare(item, "n_cols", 4), constexpr=True)
    introduce(launch, "rows", "n_rows + 1")
    assert name == "y_ptr_1"
    code = render(kernel.module)
    assert "BLOCK: tl.constexpr, y_ptr_1: tl.constexpr)" in code
    assert "def entry(x):\n    n_cols_1 = 4\n" in code
    assert "    rows = n_rows + 1\n    kernel[" in code
    assert "BLOCK=128, y_ptr_1=n_cols_1, num_warps=4)" in code


def test_arguments_change_through_the_variable_that_carries_them():
    kernel = kernel_of(candidate(DOUBLED, passed="x, y, n_cols, BLOCK=block", host="block = 128"))
    (launch,) = kernel.launches
    kernel.set_argument(launch, "BLOCK", "256")
    kernel.set_argument(launch, "n_cols", "n_cols + 0")
    assert "block = 256" in render(kernel.module)
    assert "(x, y, n_cols + 0, BLOCK=block)" in render(kernel.module)
    assert kernel.name_argument(launch, "BLOCK") == "block"
    assert text(kernel.value(launch, "BLOCK")) == "256"


def test_naming_an_argument():
    kernel = kernel_of(SOURCE)
    assert kernel.name_argument(kernel.launches[0], "BLOCK") == "BLOCK"
    assert "BLOCK = triton.next_power_of_2(n_cols)\n    kernel[" in render(kernel.module)


def test_what_a_host_binds_once():
    host = parse("def f(a):\n    b = a\n    c, d = b\n    d = 1\n    for e in b:\n        g = e\n").body[0]
    assert text(assigned_once(host, "b")) == "b = a"
    assert text(assigned_once(host, "g")) == "g = e"
    assert [assigned_once(host, name) for name in "acde"] == [None] * 4
    assert is_settled(host, expression("a + b + unbound"))
    assert not is_settled(host, expression("b + d"))
    assert origins(host, expression("g")) >= {"g", "e"}
    assert origins(host, expression("c")) == {"c", "b", "a"}


def test_an_argument_is_private_unless_another_launch_uses_its_variable():
    source = seed("cross_entropy").replace("BLOCK=4096", "BLOCK=n_cols").replace("BLOCK=1024", "BLOCK=n_cols")
    found = launches(parse(source))
    assert not is_private(found[0], found[0].keywords["BLOCK"].value, found)
    assert is_private(found[0], ast.Constant(3), found)


def test_stores_apart_from_loads():
    assert writes_apart(kernel_of(SOURCE))
    assert writes_apart(kernel_of(SOURCE.replace("torch.empty_like(x)", "torch.zeros((n_rows, n_cols))")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.empty_like(x)", "x"),
        ("torch.empty_like(x)", "x.view(-1)"),
        ("(x, y, n_cols,", "(y, y, n_cols,"),
        ("y = torch.empty_like(x)", "y = torch.empty_like(x)\n    x = y.view(-1)"),
        ("tl.store(y_ptr", "tl.store(x_ptr"),
        ("tl.load(x_ptr", "tl.load(tl.load(x_ptr)"),
        ("x + x, mask", "tl.atomic_add(y_ptr, x), mask"),
    ],
)
def test_stores_that_may_reach_loads(old, new):
    assert old in SOURCE
    assert not writes_apart(kernel_of(SOURCE.replace(old, new)))


def test_kernels_that_are_launched_in_clusters():
    assert in_clusters(parse(SOURCE)) == []
    (kernel,) = in_clusters(parse(SOURCE.replace("n_cols, BLOCK=", "n_cols, num_ctas=2, BLOCK=")))
    assert kernel.name == "kernel"
