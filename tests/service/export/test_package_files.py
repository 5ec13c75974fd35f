"""Packages as files: what is in them, and that no text of a stranger becomes anything but text."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from service.certificates.document import digest_of
from service.errors import InvalidInput
from service.export.modules import write_module
from service.export.package_files import WITHOUT_SOURCE, PackageParts, plain, render
from tests.service.export.pieces import KEYS, certificate
from workers.protocol import Readings

HOSTILE = '"""\n| [x](http://x) <script> `'


def parts(**changes: object) -> PackageParts:
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
    return PackageParts(**{**values, "refusals": (HOSTILE,), **changes})  # type: ignore[arg-type]


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


def test_a_package_says_if_the_operator_failed_mutation_testing() -> None:
    told = parts()
    assert "Admitted against" not in render(told)["README.md"]
    module = told.modules["elite_0"]
    certified = module.certificate.model_copy(update={"admitted": "zeros pass"})
    readme = render(replace(told, modules={"elite_0": replace(module, certificate=certified)}))["README.md"]
    assert "wrong kernels may pass this operator's checks. zeros pass" in readme


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
        with pytest.raises(InvalidInput, match="is not a package name"):
            render(parts(name=name))


@pytest.mark.parametrize("barriers", [0, 3])
def test_kernels_that_do_not_bear_to_be_interrupted_are_named(barriers: int) -> None:
    packed = parts()
    told = packed.certificate
    read = Readings(launches=1, programs=1, programs_per_sm=1, num_warps=4, open_barriers=barriers)
    shapes = tuple(shape.model_copy(update={"readings": read}) for shape in told.verdict.shapes)
    said = told.model_copy(update={"verdict": told.verdict.model_copy(update={"shapes": shapes})})
    packed.modules["elite_0"] = replace(packed.modules["elite_0"], certificate=said)
    assert ("card that runs nothing else" in render(packed)["README.md"]) is bool(barriers)


def test_without_gradients_it_says_so() -> None:
    files = render(parts(training=()))
    assert "There are **no kernels for gradients**" in files["README.md"]
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


ASKED = """
import torch
from double_kernels import operation
from double_kernels.examples import INPUTS, draw
from tests import test_double_kernels as tests

def asked(name):
    test = getattr(tests, name, None)
    return [shape for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize" for shape in mark.args[1]]

def of(plans):
    return {shape for shape, tensors in INPUTS.items() if tuple(sizes for sizes, *_ in tensors) in plans}

def reason(tensors, scalars=None, plans=None):
    plans = operation.PLANS if plans is None else plans
    return None if tuple(tuple(tensor.shape) for tensor in tensors) in plans else "it was not verified"

outputs, trained = asked("test_a_verified_shape_equals_the_reference"), of(operation.GRADIENTS)
gradients = asked("test_gradients_equal_those_of_the_reference")
others = asked("test_gradients_that_were_not_verified_are_those_of_pytorch")
assert set(outputs) == of(operation.PLANS) and tests.SMALLEST in outputs
assert set(gradients) == trained == of(operation.TRAINING) and len(trained) == len(operation.GRADIENTS)
assert set(others) == set(INPUTS) - trained
operation.PLANS = dict.fromkeys(operation.PLANS, lambda x: 2 * x)  # stand-ins for the card, on which alone kernels run
operation.TRAINING = dict.fromkeys(operation.TRAINING, lambda x: 2 * x)
operation.GRADIENTS = dict.fromkeys(operation.GRADIENTS, lambda upstream, x, y: 2 * upstream)
operation.why_not, operation._run = reason, lambda function, tensors: function(*tensors)
tests.draw = lambda shape, device, seed=0: draw(shape, "cpu", seed)
for shape in outputs:
    tests.test_a_verified_shape_equals_the_reference(shape)
for shape in gradients:
    tests.test_gradients_equal_those_of_the_reference(shape)
for shape in others:
    tests.test_gradients_that_were_not_verified_are_those_of_pytorch(shape)
tests.torch.compile = lambda function: function
tests.test_gradients_are_the_same_under_torch_compile()
print(sorted(gradients), sorted(others))
"""

EACH = """
import os, sys
import torch, triton

for folder in sys.argv[1:]:
    if not (fork := os.fork()):
        os.chdir(folder)
        sys.path.insert(0, folder)
        sys.stdout, sys.stderr = open("printed", "w"), open("complaints", "w")
        exec(open("script.py").read(), {"__name__": "__main__"})
        sys.stdout.close()
        os._exit(0)
    os.waitpid(fork, 0)
"""
"""Torch is imported once for all packages."""


def laid_out(script: str, packed: PackageParts, folder: Path) -> Path:
    """A folder with a package, and a script that is to have nothing else."""
    for path, text in {**render(packed), "script.py": script}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


CUTS = {
    "both": (KEYS, KEYS, (KEYS, ())),
    "fewer gradients": (KEYS, KEYS[1:], (KEYS[1:], KEYS[:1])),
    "more gradients": (KEYS[1:], KEYS, (KEYS, ())),
    "none in common": (KEYS[1:], KEYS[:1], (KEYS[:1], KEYS[1:])),
}
"""The shapes that are served, those with gradients, and what is told then."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all scripts that have run, each in a folder and a process of its own."""
    base = tmp_path_factory.mktemp("alone")
    folders = [laid_out(ALONE, parts(refusals=()), base / "through")]
    for name, (serving, training, _) in CUTS.items():
        modules = {"elite_0": write_module(certificate(), serving), "training_0": write_module(certificate(), training)}
        packed = parts(modules=modules, training=("training_0",), refusals=())
        folders.append(laid_out(ASKED, packed, base / name))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", EACH, *map(str, folders)]
    subprocess.run(command, env=environment, check=True, timeout=500)
    return base


def printed(folder: Path) -> str:
    assert (folder / "printed").exists()
    assert not (said := (folder / "complaints").read_text()), said
    return (folder / "printed").read_text()


def test_gradients_pass_through_the_operator_compiled_or_not(ran: Path) -> None:
    assert printed(ran / "through") == ""


@pytest.mark.parametrize("name", CUTS)
def test_gradients_are_tried_where_they_were_verified(ran: Path, name: str) -> None:
    told = CUTS[name][2]
    assert printed(ran / name).split("\n")[-2] == " ".join(str(sorted(shapes)) for shapes in told)
