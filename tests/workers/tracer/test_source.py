import ctypes
import sys

import pytest
import triton

from workers.protocol import Outcome, Stage
from workers.tracer.refusal import TraceRefused
from workers.tracer.source import load, parse

ALLOWED = [
    "import torch",
    "import math",
    "import torch.nn as nn, torch.nn.functional as F",
    "from torch.autograd.function import Function",
    "from triton.runtime import driver",
    "import functools, itertools, logging, warnings, os",
    "from os import environ",
    "from __future__ import annotations",
    "import triton.language as tl",
    "from triton import language as tl, cdiv",
    "from torch import Tensor",
    "from packaging import version",
    "import packaging.version as version",
    "from typing_extensions import override",
    "import einops",
    "import typing",
    "from typing import Optional, Tuple",
    "from triton.language.extra import libdevice",
    "import triton.language.extra.libdevice",
    "from triton.language.extra.cuda import libdevice",
    "import triton.language.extra.cuda.libdevice as libdevice",
    "from triton.language.extra.libdevice import tanh",
    "from triton.experimental import gluon",
    "import triton.experimental.gluon as gluon",
    "from triton.experimental.gluon import language as gl",
    "from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma",
    "from triton.tools.tensor_descriptor import TensorDescriptor",
]
FORBIDDEN = {
    "import sys": "sys",
    "import os.path as p": "os.path",
    "from os import environ, system": "os.system",
    "import torch._inductor.codecache": "torch._inductor.codecache",
    "from torch.utils import cpp_extension": "torch.utils",
    "from triton.compiler import compile": "triton.compiler",
    "from . import other": ".",
    "from .other import x": ".other",
    "import torch, numpy": "numpy",
    "from torchvision import ops": "torchvision",
    "import triton.languages": "triton.languages",
    "from triton.experimental import gluon, other": "triton.experimental.other",
    "import triton.experimental": "triton.experimental",
    "from triton.tools import compile": "triton.tools.compile",
    "import typing_inspection": "typing_inspection",
}
PARTLY = ("triton.experimental.other", "triton.tools.compile")
"""Parts of packages of which other parts are allowed: no stand-in takes their place."""


@pytest.mark.parametrize("line", ALLOWED)
def test_allowed_imports_run(line):
    assert load(parse(f"{line}\nDONE = True\n")).DONE


def bound(line):
    """The last name that an import binds; of a submodule of torch or Triton its dotted name."""
    word = line.replace(",", " ").split()[-1]
    return word if line.startswith(("from", "import torch", "import triton")) else word.partition(".")[0]


@pytest.mark.parametrize(("line", "module"), FORBIDDEN.items())
def test_other_imports_are_refused_where_they_are_used(line, module):
    with pytest.raises(TraceRefused) as refused:
        load(parse(f"def f():\n    if True:\n        {line}\n    return {bound(line)}.of(1)\n\n\nf()\n"))
    assert (refused.value.outcome, refused.value.stage, refused.value.line) == (
        Outcome.FORBIDDEN_IMPORT,
        Stage.PARSE,
        3,
    )
    assert f"'{module}'" in refused.value.reason
    assert module.startswith(".") is ("OTHER.py" in refused.value.reason)


@pytest.mark.parametrize(("line", "module"), FORBIDDEN.items())
def test_an_import_that_nothing_uses_harms_nothing(line, module):
    name = "int" if "." in bound(line) else f"{bound(line)}.Kind"
    source = f"{line}\n\n\ndef f(x: {name} | None):\n    return 0 if x else {name}\n"
    if module in PARTLY:
        with pytest.raises(TraceRefused):
            parse(source)
    else:
        assert load(parse(source)).f(1) == 0


def test_a_submodule_that_nothing_names_is_not_imported():
    lines = "import torch._inductor.codecache\nimport triton.languages\nimport os.path\n"
    module = load(parse(lines + "\n\ndef f():\n    os.system('true')\n"))
    assert module.torch.empty and module.triton.jit
    with pytest.raises(TraceRefused, match=r"imports 'os\.system'"):
        module.f()
    for used in ("torch._inductor.codecache.x", "torch._inductor.config.x", "os.path.join"):
        with pytest.raises(TraceRefused, match=r"imports '(torch\._inductor\.codecache|os\.path)'"):
            parse(f"{lines}{used}\n")


USES = {
    "called": "numpy.zeros(3)",
    "called itself": "numpy()",
    "asked": "bool(numpy.x)",
    "compared": "numpy.x == 1",
    "ordered": "numpy.x < 1",
    "added": "1 + numpy.x",
    "walked": "list(numpy)",
    "contained": "1 in numpy.x",
    "measured": "len(numpy.x)",
    "a number": "int(numpy.x)",
    "a text": "f'{numpy.x}'",
    "entered": "with numpy.x: pass",
    "a base": "class X(numpy.ndarray): pass",
    "a decorator": "@numpy.vectorize\ndef g(): pass",
    "a kind": "isinstance(1, numpy.ndarray)",
    "a version": "numpy.__version__.split('.')",
    "copied": "import copy; copy.deepcopy(numpy)",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_whatever_uses_a_stand_in_is_refused(use):
    with pytest.raises(TraceRefused, match=r"imports 'numpy'") as refused:
        load(parse(f"import numpy\n{use}\n"))
    assert refused.value.line == 1


def test_a_stand_in_is_no_part_of_the_module():
    module = load(parse("import ctypes as c\nfrom ctypes import CDLL\n"))
    assert module.c is not ctypes and module.CDLL is not ctypes.CDLL
    assert not {"CDLL", "__path__", "__file__"}.intersection(vars(module.c))


def test_the_list_can_be_widened_by_whoever_calls():
    assert load(parse("import json.decoder\n", ("json",))).json


@pytest.mark.parametrize("attempt", ["__import__('sys')", "exec('import sys')", "eval('__import__(\"sys\")')"])
def test_imports_that_the_syntax_hides_are_refused_when_they_run(attempt):
    with pytest.raises(TraceRefused) as refused:
        load(parse(f"x = 1\n{attempt}\n"))
    assert (refused.value.outcome, refused.value.line) == (Outcome.FORBIDDEN_IMPORT, 2)


@pytest.mark.parametrize(
    ("source", "line"),
    [("def f(:\n", 1), ("x = 1\n  y = 2\n", 2), ("```python\n", 1), ("x = '\n", 1), ("return 1\n", 1), ("\0", 1)],
)
def test_what_is_not_python_is_told_with_its_line(source, line):
    with pytest.raises(TraceRefused) as refused:
        parse(source)
    assert (refused.value.outcome, refused.value.line) == (Outcome.SYNTAX_ERROR, line)
    assert refused.value.reason


def test_what_it_raises_passes_through():
    with pytest.raises(ZeroDivisionError):
        load(parse("1 / 0\n"))


def test_triton_finds_the_text_of_jit_functions():
    source = "import triton\n\n\n@triton.jit\ndef double(x):\n    return 2 * x\n"
    module = load(parse(source))
    assert isinstance(module.double, triton.JITFunction)
    assert (module.double.starting_line_number, module.double.src) == (4, "def double(x):\n    return 2 * x\n")
    assert sys.modules["candidate"] is module


def test_all_that_is_refused_is_named_at_once():
    with pytest.raises(TraceRefused, match=r"imports 'numpy', 'sys'; a candidate may import") as refused:
        load(parse("import torch\nimport numpy as np\nimport sys\nimport pandas\nsys.path.append(np.pi)\n"))
    assert refused.value.line == 2


UNNEEDED = {
    "unused": "import numpy as np\n\n\ndef f(x):\n    return x\n",
    "used elsewhere": "import numpy as np\n\n\ndef f(x):\n    return x\n\n\ndef g():\n    return np.zeros(3)\n",
    "for types": "if TYPE_CHECKING:\n    from x import Y\n\n\ndef f(x):\n    return x\n",
    "main": "def f(x):\n    return x\n\n\nif __name__ == '__main__':\n    import pytest\n    pytest.main()\n",
    "example": "import numpy\n\n\ndef f(x):\n    return x\n\n\nprint(f(numpy.ones(3)))\n",
    "optional": "try:\n    import apex\n    HAS = 1\nexcept ImportError:\n    HAS = 0\n\n\ndef f(x):\n    return HAS\n",
}
"""Imports that a call of `f` never runs, or that it goes on without."""


@pytest.mark.parametrize("what", UNNEEDED)
def test_imports_that_never_run_do_not_count(what):
    module = load(parse(UNNEEDED[what], entries=("f",)))
    assert module.f(0) == 0
    assert not {"numpy", "np", "apex"}.intersection(vars(module))


def test_of_os_there_is_an_environment_in_which_nothing_is_set():
    module = load(
        parse("import os\nHOME = os.environ.get('HOME', os.getenv('PATH'))\n\n\ndef f():\n    os.system('ls')\n")
    )
    assert module.HOME is None
    with pytest.raises(TraceRefused, match=r"imports 'os\.system'"):
        module.f()
