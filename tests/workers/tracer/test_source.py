import sys

import pytest
import triton

from workers.protocol import Outcome, Stage
from workers.tracer.refusal import TraceRefused
from workers.tracer.source import load, parse

ALLOWED = [
    "import torch",
    "import math",
    "from __future__ import annotations",
    "import triton.language as tl",
    "from triton import language as tl, cdiv",
    "from torch import Tensor",
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
    "import os": "os",
    "import os.path as p": "os.path",
    "import torch.nn.functional as F": "torch.nn.functional",
    "from triton.runtime import driver": "triton.runtime",
    "from . import other": ".",
    "from .other import x": ".other",
    "import torch, numpy": "numpy",
    "from torchvision import ops": "torchvision",
    "import triton.languages": "triton.languages",
    "from triton.experimental import gluon, other": "triton.experimental",
    "import triton.experimental": "triton.experimental",
    "from triton.tools import compile": "triton.tools",
    "import typing_extensions": "typing_extensions",
}


@pytest.mark.parametrize("line", ALLOWED)
def test_allowed_imports_run(line):
    source = f"{line}\nDONE = True\n"
    assert load(source, parse(source)).DONE


@pytest.mark.parametrize(("line", "module"), FORBIDDEN.items())
def test_other_imports_are_refused_wherever_they_stand(line, module):
    with pytest.raises(TraceRefused) as refused:
        parse(f"def f():\n    if True:\n        {line}\n")
    assert (refused.value.outcome, refused.value.stage, refused.value.line) == (
        Outcome.FORBIDDEN_IMPORT,
        Stage.PARSE,
        3,
    )
    assert f"'{module}'" in refused.value.reason


def test_the_list_can_be_widened_by_whoever_calls():
    source = "import json.decoder\n"
    assert load(source, parse(source, ("json",)), ("json",)).json


@pytest.mark.parametrize("attempt", ["__import__('os')", "exec('import os')", "eval('__import__(\"os\")')"])
def test_imports_that_the_syntax_hides_are_refused_when_they_run(attempt):
    with pytest.raises(TraceRefused) as refused:
        load(f"x = 1\n{attempt}\n", parse(f"x = 1\n{attempt}\n"))
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
        load("1 / 0\n", parse("1 / 0\n"))


def test_triton_finds_the_text_of_jit_functions():
    source = "import triton\n\n\n@triton.jit\ndef double(x):\n    return 2 * x\n"
    module = load(source, parse(source))
    assert isinstance(module.double, triton.JITFunction)
    assert (module.double.starting_line_number, module.double.src) == (4, "def double(x):\n    return 2 * x\n")
    assert sys.modules["candidate"] is module
