"""Packages as files: what is in them, and that no text of a stranger becomes anything but text."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from service.certificates.document import digest_of
from service.errors import BadInput
from service.exporting.modules import write_module
from service.exporting.packaging import WITHOUT_SOURCE, Parts, plain, render
from tests.service.exporting.pieces import KEYS, certificate

HOSTILE = '"""\n| [x](http://x) <script> `'


def parts(**changes: object) -> Parts:
    told = certificate()
    said = {"versions": {"triton": HOSTILE, "torch": "2"}}
    hostile = told.model_copy(
        update={
            "verdict": told.verdict.model_copy(update=said),
            "origin": told.origin.model_copy(update={"candidate": HOSTILE, "emitter": HOSTILE}),
            "trust_reasons": (HOSTILE,),
        }
    )
    module = write_module(hostile, KEYS)
    values = {
        "name": "double_kernels",
        "modules": {"elite_0": module},
        "serving": ("elite_0",),
        "training": ("elite_0",),
    }
    return Parts(**{**values, "refusals": (HOSTILE,), **changes})  # type: ignore[arg-type]


def test_a_package_has_all_that_it_needs() -> None:
    files = render(parts())
    assert set(files) == {
        *("pyproject.toml", "README.md", "LICENSE.md", "benchmark.py", "tests/test_double_kernels.py"),
        *(f"double_kernels/{name}.py" for name in ("__init__", "operation", "examples", "reference", "elite_0")),
        "double_kernels/certificates/elite_0.json",
    }
    for path, text in files.items():
        if path.endswith(".py"):
            imported = {
                alias.name.partition(".")[0] if isinstance(node, ast.Import) else (node.module or "").partition(".")[0]
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            }
            assert imported <= {"torch", "triton", "warnings", "pytest", "double_kernels"}, path
    assert tomllib.loads(files["pyproject.toml"])["project"]["name"] == "double-kernels"
    assert "PREDICTED" in files["README.md"] and "nothing was measured" in files["README.md"].lower()
    assert "def double(x, by=2.0):" in files["double_kernels/operation.py"]


def test_pytorch_is_timed_under_the_contracts_precision() -> None:
    text = render(parts())["benchmark.py"]
    assert 'set_float32_matmul_precision("highest")' in text and "cudnn.allow_tf32 = False" in text


def test_certificates_go_without_the_candidates_host_code() -> None:
    document = json.loads(render(parts())["double_kernels/certificates/elite_0.json"])
    assert document["source"] is None and WITHOUT_SOURCE in document["left_out"]
    assert document["id"] == digest_of(document)


def test_texts_of_strangers_stay_texts() -> None:
    files = render(parts())
    for path, text in files.items():
        if not path.endswith(".json"):
            assert "<script>" not in text.replace(repr(HOSTILE), "") and "](http" not in text.replace(
                repr(HOSTILE), ""
            ), path
    assert plain(HOSTILE) == "'''".replace("'", "?") + "?? ?x?(http:??x) ?script? ?".replace("??x)", "//x)")
    for name in ("Double", "a-b", "a.b", "", "x'; import os"):
        with pytest.raises(BadInput, match="no name of a package"):
            render(parts(name=name))


def test_without_gradients_it_says_so() -> None:
    files = render(parts(training=()))
    assert "There are **no kernels for gradients** here" in files["README.md"]
    assert "TRAINING" not in files["double_kernels/operation.py"]
    assert "register_autograd" in render(parts())["double_kernels/operation.py"]


ALONE = """
import torch
from double_kernels import double, operation

function, arguments = torch.ops.double_kernels.double_training.default, (torch.randn(4, requires_grad=True), 2.0)
for shapes in operation.PLANS:  # a stand-in for the card, on which alone kernels run
    operation.PLANS[shapes] = operation.TRAINING[shapes] = lambda x: 2 * x
    operation.GRADIENTS[shapes] = lambda upstream, x, y: 2 * upstream
operation.why_not = lambda tensors, scalars=None, plans=operation.PLANS: None
operation._run = lambda function, tensors: function(*tensors)
for called in (double, torch.compile(double, backend="aot_eager", fullgraph=True)):
    x = torch.randn(4, requires_grad=True)
    y = called(x)
    (gradient,) = torch.autograd.grad(y, x, torch.full((4,), 3.0))
    assert torch.equal(y, 2 * x) and torch.equal(gradient, torch.full((4,), 6.0))
assert set(torch.library.opcheck(function, arguments).values()) == {"SUCCESS"}
"""


def test_gradients_pass_through_the_operator_compiled_or_not(tmp_path: Path) -> None:
    for path, text in render(parts(refusals=())).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ALONE], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
