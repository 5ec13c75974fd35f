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
from service.export.decision_tree import PYTORCH, Feature, Leaf, Question, TimedShape, Tree
from service.export.package_files import (
    WITHOUT_SOURCE,
    ComparedShape,
    Gradients,
    PackageParts,
    plain,
    render,
    serving_at,
)
from service.export.verification import JudgedFunction, VerifiedModule
from tests.service.certificates import evidence
from tests.service.export.hostile_users import MISUSED, TAKEN_BACK
from tests.service.export.pieces import certificate, gluon_module, optional_module, verified
from workers.protocol import Device, Readings, Report, SymbolicPlan

SIZE = Feature(("N",))
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
    found = verified()
    module = replace(found, module=replace(found.module, certificate=hostile))
    tree = Leaf(("elite_0",))
    timed = tuple(TimedShape({"N": int(key[2:])}, {"elite_0": time_us}) for key, time_us in found.times.items())
    values = {
        "name": "double_kernels",
        "modules": {"elite_0": module},
        "tree": tree,
        "timed": timed,
        "training": Gradients(("elite_0",), tree, timed),
        "judged_on": Device.parse("model:sm_90"),
    }
    return PackageParts(**{**values, "refusals": (HOSTILE,), **changes})  # type: ignore[arg-type]


def test_a_package_has_all_that_it_needs() -> None:
    files = render(parts())
    assert set(files) == {
        *("pyproject.toml", "README.md", "LICENSE.md", "benchmark.py", "tests/test_double_kernels.py"),
        *(
            f"double_kernels/{name}.py"
            for name in ("__init__", "operation", "elsewhere", "examples", "reference", "elite_0")
        ),
        "double_kernels/metadata.json",
        *(f"double_kernels/certificates/{name}.json" for name in ("elite_0", "elite_0_functions")),
    }
    known = {"torch", "triton", "math", "warnings", "functools", "threading", "pytest", "double_kernels", "vllm"}
    for path, text in files.items():
        if path.endswith(".py"):
            imported = {
                alias.name.partition(".")[0] if isinstance(node, ast.Import) else (node.module or "").partition(".")[0]
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
                for alias in node.names
            }
            assert imported <= known, path
    assert tomllib.loads(files["pyproject.toml"])["project"]["name"] == "double-kernels"
    assert "PREDICTED" in files["README.md"] and "nothing was measured" in files["README.md"].lower()
    assert "def double(x, by=2.0):" in files["double_kernels/operation.py"]


def test_a_package_says_if_the_operator_failed_mutation_testing() -> None:
    told = parts()
    assert "Admitted against" not in render(told)["README.md"]
    verified = told.modules["elite_0"]
    certified = verified.module.certificate.model_copy(update={"admitted": "zeros pass"})
    marked = replace(verified, module=replace(verified.module, certificate=certified))
    readme = render(replace(told, modules={"elite_0": marked}))["README.md"]
    assert "wrong kernels may pass this operator's checks. zeros pass" in readme


def test_pytorch_is_timed_under_the_contracts_precision() -> None:
    text = render(parts())["benchmark.py"]
    assert 'set_float32_matmul_precision("highest")' in text and "cudnn.allow_tf32 = False" in text


def test_certificates_go_without_the_candidates_host_code() -> None:
    document = json.loads(render(parts())["double_kernels/certificates/elite_0.json"])
    assert document["source"] is None and WITHOUT_SOURCE in document["left_out"]
    assert document["id"] == digest_of(document)


def test_every_function_comes_with_its_plan_and_its_verdict() -> None:
    told = json.loads(render(parts())["double_kernels/certificates/elite_0_functions.json"])
    assert [each["divisible_by_16"] for each in told] == [["n of launch 0", "n of launch 1"], []]
    for each, known in zip(told, verified().verdicts, strict=True):
        assert SymbolicPlan.model_validate(each["plan"]) == known.function.plan
        assert Report.model_validate(each["report"]) == known.report and each["kernels"] == list(known.kernels)


def test_the_readme_says_what_was_judged_and_timed_where() -> None:
    text = render(parts())["README.md"]
    assert "N from 1 to 4096." in text and "| `elite_0` | 2 | `model:sm_90` |" in text
    assert "| N=1024 | yes | `elite_0` |" in text and text.count("|  | `elite_0` | ") >= 8
    assert "**Note:**" not in text
    measured = verified().module.certificate.model_copy(update={"device": Device.parse("h200")})
    module = replace(verified(), module=replace(verified().module, certificate=measured))
    noted = render(parts(modules={"elite_0": module}, note="the interpreter judged"))["README.md"]
    assert "**Note:** the interpreter judged. The search judged the candidate's own kernels on `h200`" in noted


def test_the_readme_says_how_good_it_is_where_nobody_searched() -> None:
    card = Device.parse("h200")
    measured = verified().module.certificate.model_copy(update={"device": card})
    known = {key for each in verified().verdicts for key in each.shapes}
    wrong = next(f"N={size}" for size in range(5, 4096) if f"N={size}" not in known)
    module = replace(verified(), module=replace(verified().module, certificate=measured), wrong=(wrong, "N=4"))
    compared = (ComparedShape("N=77", 5.5, 5.0), ComparedShape("N=99", 10.0, 10.0))
    told = parts(modules={"elite_0": module}, judged_on=card, compared=compared)
    count = len(known - {"N=4", "N=1024"})
    text = render(told)["README.md"]
    assert f"judged at {count + 1} shapes that its search did not judge, and was right at {count}." in text
    assert "faster than this package there by 4.9 %" in text and "| N=77 | 5.50 | 5.00 |" in text
    assert "| us, measured | PyTorch |" in text and "These times are predictions" not in text
    text = render(parts(modules={"elite_0": module}))["README.md"]
    assert "| us, predicted | PyTorch |" in text and "These times are predictions" in text, "no card judged it here"
    assert "that its search did not judge" not in text and "what a search there would gain is not known" in text


def test_the_tree_is_written_as_questions() -> None:
    odd = Question(Feature(("N",), 16), 0, Leaf(("elite_0", PYTORCH)), Leaf(("elite_0",)))
    tree = Question(SIZE, 64, Leaf((PYTORCH,)), Question(Feature(("N", "N")), 900, odd, Leaf(("elite_0",))))
    packed = parts(tree=tree)
    assert (
        "    if N <= 64:\n        return ()\n    if N * N <= 900:\n"
        "        if N % 16 == 0:\n            return (elite_0,)\n"
        "        return (elite_0,)\n    return (elite_0,)\n" in render(packed)["double_kernels/operation.py"]
    )
    assert [serving_at(tree, packed.modules, {"N": size}) for size in (64, 65, 901)] == [None, "elite_0", "elite_0"]


def test_texts_of_strangers_stay_texts() -> None:
    files = render(parts())
    for path, text in files.items():
        if not path.endswith(".json"):
            assert "<script>" not in text.replace(repr(HOSTILE), "") and "](http" not in text.replace(
                repr(HOSTILE), ""
            ), path
    assert plain(HOSTILE) == "'''".replace("'", "?") + "?? ?x?(http:??x) ?script? ?".replace("??x)", "//x)")
    for name in ("Double", "a-b", "a.b", "", "x'; import os", "class", "torch", "json", "aten", "a" * 65):
        with pytest.raises(InvalidInput, match="is not a package name"):
            render(parts(name=name))


@pytest.mark.parametrize("barriers", [0, 3])
def test_kernels_that_do_not_bear_to_be_interrupted_are_named(barriers: int) -> None:
    packed = parts()
    told = packed.certificate
    read = Readings(launches=1, programs=1, programs_per_sm=1, num_warps=4, open_barriers=barriers)
    shapes = tuple(shape.model_copy(update={"readings": read}) for shape in told.verdict.shapes)
    said = told.model_copy(update={"verdict": told.verdict.model_copy(update={"shapes": shapes})})
    module = packed.modules["elite_0"]
    packed = parts(modules={"elite_0": replace(module, module=replace(module.module, certificate=said))})
    assert ("card that runs nothing else" in render(packed)["README.md"]) is bool(barriers)


def test_without_gradients_it_says_so() -> None:
    files = render(parts(training=None))
    assert "There are **no kernels for gradients**" in files["README.md"]
    assert "_training" not in files["double_kernels/operation.py"]
    assert "register_autograd" in render(parts())["double_kernels/operation.py"]


ALONE = """
import torch
from double_kernels import double, operation

x = torch.randn(4, requires_grad=True)
warned = torch.compile(double, backend="aot_eager")(x)  # by PyTorch: this machine has no card
assert torch.equal(torch.autograd.grad(warned.sum(), x)[0], torch.full((4,), 2.0))
function, arguments = torch.ops.double_kernels.double_training.default, (torch.randn(4, requires_grad=True), 2.0)
sound, looked_up = operation.why_not, operation._functions
operation._functions = lambda tensors, scalars, select: (None, None, ())  # a stand-in for the card: kernels run there
operation._run = lambda function, tensors, sizes: 2 * tensors[0]
for called in (double, torch.compile(double, backend="aot_eager", fullgraph=True)):
    x = torch.randn(4, requires_grad=True)
    y = called(x)
    (gradient,) = torch.autograd.grad(y, x, torch.full((4,), 3.0))
    assert torch.equal(y, 2 * x) and torch.equal(gradient, torch.full((4,), 6.0))
    (gradient,) = torch.autograd.grad(called(x), x, torch.full((8,), 3.0)[::2])
    assert torch.equal(gradient, torch.full((4,), 6.0))
assert set(torch.library.opcheck(function, arguments).values()) == {"SUCCESS"}
operation._functions = looked_up


class OnCard:
    def __init__(self, tensor, device="cuda:0"):
        self.tensor, self.device = tensor, torch.device(device)

    def __getattr__(self, name):
        return getattr(self.tensor, name)


def reason(tensor, scalars=(2.0,), **more):
    return sound((OnCard(tensor, **more),), scalars) or ""


operation._kind = lambda index: "sm_90" if index == 0 else "sm_80"
plain, wide = torch.zeros(64), torch.zeros(128)
assert reason(plain) == ""
assert "x is not contiguous: its strides are (2,)" in reason(wide[::2])
assert "x is not aligned to 16 bytes" in reason(wide[1:65])
assert "torch.float64 were not verified" in reason(plain.double())
assert "(3.0,) behind the tensors" in reason(plain, (3.0,))
assert "N = 4097 is not within 1 to 4096" in reason(torch.zeros(4097)) and "N = 0" in reason(torch.zeros(0))
assert "do not fit together" in reason(plain.view(8, 8))
assert "this GPU is sm_80" in reason(plain, device="cuda:1")
assert "within 1 to 4096" in reason(torch.zeros(1).expand(2**31)[:0])
assert "not contiguous" in reason(torch.zeros(1).expand(2**31))
assert "N = 2147483648 is not within" in reason(torch.empty(2**31, device="meta"), device="cuda:0")
assert "neither nested nor sparse" in reason(torch.eye(3).to_sparse()), reason(torch.eye(3).to_sparse())
assert reason(torch.zeros(64)[16:]) == "", reason(torch.zeros(64)[16:])
assert "the kernels need one GPU" in sound((plain,))
operation._select = lambda N: ()
assert "PyTorch was faster" in sound((OnCard(plain),), (2.0,), operation._select)
for size in range(1, operation.REMEMBERED + 9):
    operation._functions((torch.zeros(size // 64 + 1, size % 64 + 1),), (2.0,), operation._select)
assert len(operation._found) <= operation.REMEMBERED
"""


WATCHED = """
import warnings

import torch
from double_kernels import double, operation
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

warnings.simplefilter("ignore")  # PyTorch computes on a machine without a card
plain = torch.randn(4)
direct, found = [], operation._functions
operation._functions = lambda tensors, scalars, select: direct.append(tensors) or found(tensors, scalars, select)
operation._OPERATORS = None
assert torch.equal(double(plain), 2 * plain) and direct, "nobody watches, so no dispatcher is asked"
assert torch.equal(double(torch.nn.Parameter(plain, requires_grad=False)), 2 * plain)
operation._OPERATORS = torch.ops.double_kernels


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Handed(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    pass


for mode in (Seen(), Handed()):
    seen = []
    with mode:
        double(plain)
    assert any("double_kernels.double" in name for name in seen), seen
graph = make_fx(lambda x: double(x))(plain).graph
assert [str(node.target) for node in graph.nodes if node.op == "call_function"] == ["double_kernels.double.default"]
assert "double_kernels::double" in str(torch.jit.trace(double, plain, check_trace=False).graph)
exported = torch.export.export(type("M", (torch.nn.Module,), {"forward": lambda self, x: double(x)})(), (plain,))
assert "double_kernels.double.default" in str(exported.graph)
inside = []
torch.func.vmap(lambda row: inside.append(operation._is_plain((row,))) or row)(torch.randn(2, 4))
torch.func.functionalize(lambda row: inside.append(operation._is_plain((row,))) or row)(plain)
odd = (torch._neg_view(plain), torch._efficientzerotensor(4), plain.as_subclass(Sub))
assert not any(inside) and not any(operation._is_plain((plain, each)) for each in odd), inside
assert torch.equal(double(torch._neg_view(plain)), -2 * plain)
"""


VLLM = """
import warnings

import torch
from double_kernels import double, operation, register_with_vllm

try:
    from vllm.utils.torch_utils import direct_register_custom_op  # a third of a gigabyte, so no dependency
except ImportError:
    library = torch.library.Library("vllm", "FRAGMENT")

    def direct_register_custom_op(
        op_name, op_func, mutates_args=None, fake_impl=None, target_lib=None, dispatch_key=None, tags=()
    ):
        # The text of vLLM 0.33.0 with the dispatch key of its platform without a card.
        mutates_args = [] if mutates_args is None else mutates_args
        schema = torch.library.infer_schema(op_func, mutates_args=mutates_args)
        mine = target_lib or library
        mine.define(op_name + schema, tags=tags)
        mine.impl(op_name, op_func, dispatch_key=dispatch_key or "CPU")
        if fake_impl is not None:
            mine._register_fake(op_name, fake_impl)


operator = register_with_vllm(direct_register_custom_op)
assert operator is torch.ops.vllm.double_kernels_double
x = torch.randn(9)
warnings.simplefilter("ignore")  # PyTorch computes on a machine without a card
assert torch.equal(operator(x, 2.0), 2 * x)
checks = torch.library.opcheck(operator.default, (x, 2.0), test_utils=("test_schema", "test_faketensor"))
assert set(checks.values()) == {"SUCCESS"}
assert torch.equal(torch.compile(operator, backend="aot_eager", fullgraph=True)(x, 2.0), 2 * x)
"""


IN_GLUON = """
import warnings

import torch
from matmul_kernels import elite_0, matmul, operation, register_with_vllm, override
from matmul_kernels.reference import matmul as reference

a, b = torch.randn(33, 24).bfloat16(), torch.randn(24, 40).bfloat16()
warnings.simplefilter("ignore")  # PyTorch computes on a machine without a card
assert torch.equal(matmul(a, b), reference(a, b))  # by PyTorch: this machine has no card
assert torch.equal(torch.compile(matmul, backend="aot_eager", fullgraph=True)(a, b), reference(a, b))
assert elite_0.layout_0.swizzle_byte_width == 128 and elite_0.specialised_kernel.is_gluon()
assert elite_0.choose(96, 264, 72) and elite_0.choose(33, 17, 20)
assert "tensors on cpu" in operation.why_not((a, b), ())
"""


MAYBE_ABSENT = """
import inspect
import warnings
from pathlib import Path

import torch
from kernels import get_local_kernel
from shift_kernels import elite_0, operation, override, register_with_vllm, shift
from shift_kernels.examples import INPUTS, SCALARS, draw
from shift_kernels.reference import shift as reference
from tests import test_shift_kernels as tests

warnings.simplefilter("ignore")  # PyTorch computes on a machine without a card
assert str(inspect.signature(shift)) == "(bias, x, scale=None)"
x, bias = torch.randn(3, 48), torch.randn(48)
calls = [(bias, x, None), (None, x, None), (None, x, bias), (bias, x, bias)]
for given in calls:
    for called in (shift, torch.compile(shift, backend="aot_eager", fullgraph=True), torch.ops.shift_kernels.shift):
        assert torch.equal(called(*given), reference(*given))
    operator, tried = torch.ops.shift_kernels.shift.default, ("test_schema", "test_faketensor")
    checks = torch.library.opcheck(operator, given, test_utils=tried)
    assert set(checks.values()) == {"SUCCESS"}
assert torch.equal(shift(bias, x), reference(bias, x, None))
learned = torch.randn(48, requires_grad=True)
(gradient,) = torch.autograd.grad(shift(learned, x).sum(), learned)
assert torch.equal(gradient, torch.full((48,), 3.0)) and not shift(None, x).requires_grad
loaded = get_local_kernel(Path("shift_kernels"))
assert loaded.__name__ != "shift_kernels"
assert torch.equal(loaded.shift(None, x), x) and torch.equal(loaded.shift(bias, x), x + bias)


class OnCard:
    def __init__(self, tensor, device="cuda:0"):
        self.tensor, self.device = tensor, torch.device(device)

    def __getattr__(self, name):
        return getattr(self.tensor, name)


def reason(*tensors, **more):
    operation._found.clear()
    return operation.why_not([None if each is None else OnCard(each, **more) for each in tensors], ()) or ""


operation._kind = lambda index: "sm_90"
assert not any(reason(*given) for given in calls)
assert "do not fit together" in reason(bias[:16], x, None) and "do not fit together" in reason(None, x, bias[:16])
assert "dtypes torch.float64, torch.float32 were not verified" in reason(bias.double(), x, None)
assert "scale is not contiguous" in reason(None, x, torch.zeros(96)[::2])
assert "bias is not aligned" in reason(torch.zeros(64)[1:49], x, None)
assert "the kernels need one GPU" in operation.why_not([OnCard(bias, "cuda:1"), OnCard(x), None], ())
assert "M = 65 is not within" in reason(None, torch.zeros(65, 48), None)
chosen = {elite_0.choose(48, 3, *given)[0] for given in ((0, 0), (0, 1), (1, 0), (1, 1))}
assert len(chosen) == 4, "each combination has a function of its own"

library = torch.library.Library("vllm", "FRAGMENT")


def direct_register_custom_op(op_name, op_func, mutates_args, fake_impl):  # as vLLM does
    library.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args))
    library.impl(op_name, op_func, "CPU")
    library._register_fake(op_name, fake_impl)


operator = register_with_vllm(direct_register_custom_op)
for given in calls:
    assert torch.equal(operator(*given), reference(*given))
    assert torch.equal(torch.compile(operator, backend="aot_eager", fullgraph=True)(*given), reference(*given))

operation._why_no_shape = lambda tensors, scalars: None  # stand-ins for the card
operation._found.clear()
seen = []
operation._run = lambda function, tensors, sizes: seen.append(sizes) or reference(*tensors)
with override("relu", lambda x: (None, x, None) if x.dim() == 2 else None, key="CPU"):
    assert torch.equal(torch.relu(-x.abs()), -x.abs()) and seen == [(48, 3, 0, 0)]
    assert torch.equal(torch.relu(bias), bias.clamp(min=0)) and len(seen) == 1
tests.draw = lambda shape, device, seed=0: draw(shape, "cpu", seed)
marks = tests.test_a_verified_shape_equals_the_reference.pytestmark
(asked,) = [mark.args[1] for mark in marks if mark.name == "parametrize"]
for shape in asked:
    tests.test_a_verified_shape_equals_the_reference(shape)
assert {sizes[2:] for sizes in seen} == {(0, 0), (0, 1), (1, 0), (1, 1)} and None in INPUTS[asked[0]] + INPUTS[asked[1]]
tests.test_its_schema_and_its_fake_kernel_hold()
"""


ASKED = """
import torch
from double_kernels import operation
from double_kernels.examples import INPUTS, SCALARS, draw
from tests import test_double_kernels as tests

def asked(name):
    test = getattr(tests, name, None)
    return [shape for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize" for shape in mark.args[1]]

def of(select):
    return {shape for shape in INPUTS if operation._look_for(select, draw(shape, "cpu"), SCALARS[shape])}

served, trained = of(operation._select), of(operation._select_training)
outputs = asked("test_a_verified_shape_equals_the_reference")
gradients = asked("test_gradients_equal_those_of_the_reference")
others = asked("test_gradients_that_were_not_verified_are_those_of_pytorch")
assert set(outputs) == served and tests.SMALLEST in outputs
assert set(gradients) == trained and set(others) == served - trained
operation._why_no_shape = lambda tensors, scalars: None  # stand-ins for the card
operation._run = lambda function, tensors, sizes: 2 * tensors[0]
tests.draw = lambda shape, device, seed=0: draw(shape, "cpu", seed)
for shape in outputs:
    tests.test_a_verified_shape_equals_the_reference(shape)
for shape in gradients:
    tests.test_gradients_equal_those_of_the_reference(shape)
for shape in others:
    tests.test_gradients_that_were_not_verified_are_those_of_pytorch(shape)
tests.torch.compile = lambda function: function
tests.test_gradients_are_the_same_under_torch_compile()
print(*sorted(gradients, key=lambda shape: int(shape[2:])))
print(*sorted(others, key=lambda shape: int(shape[2:])))
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


def in_gluon() -> PackageParts:
    """A package of a kernel in Gluon, with verdicts as a card gives them."""
    module = gluon_module()
    verdicts = tuple(JudgedFunction(at, each, (), (), evidence.measured()) for at, each in enumerate(module.functions))
    elite = VerifiedModule(module, verdicts, {"K=256,M=128,N=512": 9.0})
    timed = (TimedShape({"M": 128, "N": 512, "K": 256}, {"elite_0": 9.0}),)
    values = {"name": "matmul_kernels", "modules": {"elite_0": elite}, "timed": timed, "training": None}
    return parts(**values, refusals=())


IN_SCRATCH = """
import double_kernels.operation as operation
from triton.runtime._allocation import _allocator

before = _allocator.get()


def host(*arguments):
    assert _allocator.get() is operation._scratch
    return arguments


assert operation._launched(host, 1, 2) == (1, 2)
assert _allocator.get() is before, "the program's own allocator stays"
"""


def in_scratch() -> PackageParts:
    """A package whose kernels make descriptors of tensors."""
    elite = verified()
    text = elite.module.text.replace("tl.load(", "tl.make_tensor_descriptor(")
    return parts(modules={"elite_0": replace(elite, module=replace(elite.module, text=text))}, refusals=())


def maybe_absent() -> PackageParts:
    """A package of an operator with optional inputs."""
    elite = optional_module()
    sizes = [dict(part.split("=") for part in key.split(",")) for key in elite.times]
    timed = tuple(TimedShape({name: int(size) for name, size in each.items()}, {"elite_0": 9.0}) for each in sizes)
    values = {"name": "shift_kernels", "modules": {"elite_0": elite}, "timed": timed, "training": None}
    return parts(**values, refusals=())


def laid_out(script: str, packed: PackageParts, folder: Path) -> Path:
    """A folder with a package, and a script that is to have nothing else."""
    for path, text in {**render(packed), "script.py": script}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


CUTS = {"both": (0, 0), "fewer gradients": (0, 64), "more gradients": (64, 0)}
"""The sizes from which kernels serve outputs, and from which they compute gradients."""


def above(limit: int) -> Tree:
    """The tree in which kernels serve sizes above a limit."""
    return Question(SIZE, limit, Leaf((PYTORCH,)), Leaf(("elite_0",))) if limit else Leaf(("elite_0",))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all scripts that have run, each in a folder and a process of its own."""
    base = tmp_path_factory.mktemp("alone")
    folders = [laid_out(ALONE, parts(refusals=()), base / "through"), laid_out(VLLM, parts(refusals=()), base / "vllm")]
    folders.append(laid_out(WATCHED, parts(refusals=()), base / "watched"))
    folders.append(laid_out(MISUSED, parts(refusals=()), base / "misused"))
    folders.append(laid_out(TAKEN_BACK, parts(refusals=()), base / "taken back"))
    folders.append(laid_out(IN_GLUON, in_gluon(), base / "gluon"))
    folders.append(laid_out(MAYBE_ABSENT, maybe_absent(), base / "absent"))
    folders.append(laid_out(IN_SCRATCH, in_scratch(), base / "scratch"))
    for name, (serving, training) in CUTS.items():
        gradients = Gradients(("elite_0",), above(training), parts().timed)
        packed = parts(tree=above(serving), training=gradients, refusals=())
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


def test_modes_tracers_and_transforms_see_calls_and_no_one_else_waits_for_them(ran: Path) -> None:
    assert printed(ran / "watched") == ""


def test_kernels_in_gluon_are_packaged_and_imported(ran: Path) -> None:
    assert printed(ran / "gluon") == ""


def test_kernels_that_make_descriptors_get_scratch_memory_and_others_no_allocator(ran: Path) -> None:
    assert printed(ran / "scratch") == ""
    text = render(in_scratch())["double_kernels/operation.py"]
    assert text.count("results = _launched(function, *tensors, *sizes)") == 2
    assert "allocator" not in render(parts())["double_kernels/operation.py"]


def test_inputs_may_be_absent_in_every_form(ran: Path) -> None:
    assert printed(ran / "absent") == ""
    readme = render(maybe_absent())["README.md"]
    assert "These may be None: bias, scale." in readme and "N from 1 to 512; M from 1 to 64." in readme


def test_it_registers_with_vllm_as_its_own_operators_do(ran: Path) -> None:
    assert printed(ran / "vllm") == ""


@pytest.mark.parametrize("name", ["misused", "taken back"])
def test_it_bears_what_nobody_expects_and_leaves_nothing_behind(ran: Path, name: str) -> None:
    assert printed(ran / name) == ""


@pytest.mark.parametrize("name", CUTS)
def test_gradients_are_tried_where_they_were_verified(ran: Path, name: str) -> None:
    serving, training = CUTS[name]
    sizes = sorted({4, 1024, *(int(key[2:]) for key in verified().times)})
    gradients = [f"N={size}" for size in sizes if size > training]
    others = [f"N={size}" for size in sizes if serving < size <= training]
    assert printed(ran / name).split("\n")[-3:-1] == [" ".join(gradients), " ".join(others)]
