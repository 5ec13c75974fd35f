"""Aggregates are exported as typed fields, a constructor that assigns them, and jit functions; nothing else is."""

import asyncio

import pytest

from service.export.aggregates import Aggregate, NotExtractable, plain_name, read_aggregate
from service.export.executors import ExportExecutors
from service.export.extraction import lift
from service.export.modules import write_module
from service.export.variants import exact_functions
from service.export.verification import ExportVerifier
from service.operators.sources import parse, without_texts
from tests.service.export.pieces import OPERATOR, bundle_of, certificate, sampled
from workers.protocol import Device

SOURCE = """
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.core import _aggregate as aggregate


@aggregate
class Tile:
    \"\"\"What a candidate says of itself.\"\"\"

    start: gl.tensor
    handle: gl.tensor
    BLOCK: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, start, handle, BLOCK):
        self.start = start
        self.handle = handle
        self.BLOCK = gl.constexpr(BLOCK)

    @gluon.jit
    def of(size, BLOCK: gl.constexpr):
        return Tile(gl.program_id(0) * BLOCK, size, BLOCK)

    @gluon.jit
    def load(self, pointer, layout: gl.constexpr):
        at = self.offsets(layout)
        return gl.load(pointer + at, mask=at < self.handle)

    @gluon.jit
    def offsets(self, layout: gl.constexpr):
        return self.start + gl.arange(0, self.BLOCK, layout=layout)


@aggregate
class Pair:
    tile: Tile
    more: gl.tensor | gl.constexpr

    def __init__(self, tile, more):
        self.tile = tile
        self.more = more


@gluon.jit
def double_kernel(x_ptr, y_ptr, n, by: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr):
    pair = Pair(Tile.of(n, BLOCK), n)
    at = pair.tile.offsets(layout)
    gl.store(y_ptr + at, pair.tile.load(x_ptr, layout) * by, mask=at < pair.more)


def launch(x, y, by):
    n = x.numel()
    layout = gl.BlockedLayout([1], [32], [4], [0])
    double_kernel[(triton.cdiv(n, 256),)](x, y, n, by=by, BLOCK=256, layout=layout, num_warps=4)
    return y


def double(x, by):
    return launch(x, torch.empty_like(x), by)


def double_backward(grad_y, x, y, by):
    return launch(grad_y, torch.empty_like(x), by)
"""


def read(source: str = SOURCE, name: str = "Tile") -> Aggregate:
    (node,) = (each for each in without_texts(parse(source)).body if getattr(each, "name", "") == name)
    return read_aggregate(node)  # type: ignore[arg-type]


def changed(before: str, after: str) -> str:
    assert SOURCE.count(before) == 1, before
    return SOURCE.replace(before, after)


def test_members_get_names_that_no_value_of_triton_has() -> None:
    found = read()
    assert found.members == {
        "start": "own_start",
        "handle": "own_handle",
        "BLOCK": "own_BLOCK",
        "of": "own_of",
        "load": "load",
        "offsets": "own_offsets",
    }, "'load' is on the list of attributes already"
    code = lift(SOURCE, ["double_kernel"])
    assert list(code.functions) == ["Tile", "Pair", "double_kernel"] and code.parameters["Tile"] == ()
    text = "\n".join(code.functions.values())
    assert "pair.own_tile.own_offsets(layout)" in text and "at < self.own_handle" in text and ".handle" not in text
    assert "own_more: gl.tensor | gl.constexpr" in text and "own_tile: Tile" in text
    assert "What a candidate says" not in text
    assert "from triton.language.core import _aggregate as aggregate" in code.imports


def test_a_module_with_aggregates_is_the_judged_machine_code() -> None:
    elite = certificate(SOURCE, bundle_of(OPERATOR.reference, SOURCE))

    async def retraced() -> list[str]:
        module = write_module(elite, exact_functions(elite.bundle.plans))
        async with ExportExecutors(Device.parse("model:sm_90")) as executors:
            verifier, few = ExportVerifier(executors), sampled(small=True)
            other = module.text.replace("* BLOCK, size", "* BLOCK + 1, size")
            assert other != module.text
            wrong = write_module(elite, exact_functions(elite.bundle.plans))
            object.__setattr__(wrong, "text", other)
            return [await verifier.retrace(each, few) for each in (module, wrong)]

    honest, wrong = asyncio.run(retraced())
    assert honest == "" and "differs from the judged one" in wrong


HOSTILE = {
    "code in a constructor": ("self.start = start\n", "self.start = __import__('os').system('true')\n"),
    "a call in a constructor": ("self.start = start\n", "self.start = print(start)\n"),
    "a loop in a constructor": ("self.start = start\n", "while True:\n            pass\n"),
    "an attribute of a parameter": ("self.start = start\n", "self.start = start.handle\n"),
    "another object's attribute": ("self.start = start\n", "BLOCK.start = start\n"),
    "a field that is none": ("self.start = start\n", "self.__class__ = start\n"),
    "a default that is computed": ("def __init__(self, start,", "def __init__(self, start=print(1), *more,"),
    "a decorator of a constructor": ("@gluon.constexpr_function", "@print"),
    "another decorator": ("@aggregate\nclass Tile:", "@print\n@aggregate\nclass Tile:"),
    "a base": ("class Tile:", "class Tile(dict):"),
    "a metaclass": ("class Tile:", "class Tile(metaclass=print):"),
    "code in a class": ("    start: gl.tensor\n", "    start: gl.tensor\n    print(1)\n"),
    "a value of a field": ("    start: gl.tensor\n", "    start: gl.tensor = print(1)\n"),
    "a type that is computed": ("    start: gl.tensor\n", "    start: print('x')\n"),
    "a type that is not listed": ("    start: gl.tensor\n", "    start: gl.core\n"),
    "a method that is no kernel": ("@gluon.jit\n    def of(", "@gluon.constexpr_function\n    def of("),
    "a plain method": ("@gluon.jit\n    def of(", "def of("),
    "a name of Python's": ("def of(size", "def __getattr__(size"),
    "a word in a method": ("return self.start +", "return self.start.__class__ +"),
    "an attribute of triton": ("return self.start +", "return self.start.type.fields +"),
    "two members of one name": ("    start: gl.tensor\n", "    start: gl.tensor\n    of: gl.tensor\n"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_anything_else_is_refused(change: tuple[str, str]) -> None:
    with pytest.raises(NotExtractable):
        lift(changed(*change), ["double_kernel"])


def test_a_class_that_is_no_aggregate_is_no_word() -> None:
    with pytest.raises(NotExtractable, match="which is not on the list of exported words"):
        lift(SOURCE.replace("@aggregate\nclass Tile", "class Tile"), ["double_kernel"])


def test_names_are_plain() -> None:
    assert plain_name("_x1") == "_x1"
    for name in ("__x", "é", "x" * 129):
        with pytest.raises(NotExtractable, match="not plain"):
            plain_name(name)
