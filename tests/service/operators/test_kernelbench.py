"""A problem of KernelBench becomes an operator of ours, and a folder that reads as the same operator."""

import tomllib
from pathlib import Path, PurePath
from typing import Any

import pytest
import torch

from service.errors import InvalidInput
from service.operators.catalogue import load_operator
from service.operators.kernelbench import (
    files_of_operator,
    is_problem,
    is_source,
    name_of_problem,
    name_of_target,
    name_of_text,
    operator_of_problem,
    parts_of_reference,
)
from tests.workers.kernelbench.problems import IN_PLACE, LINEAR, LOSS
from tests.workers.kernelbench.test_inspection import STRUCTURED, look
from tests.workers.tracer.test_reference import graph
from workers.protocol import Input, Operator, Output, Scalar
from workers.protocol.kernelbench import ProblemInspection
from workers.reference import evaluate

FOUND = ProblemInspection(
    inputs=(
        Input(name="x", shape=("batch", "width"), dtype="float32"),
        Input(name="gemm_weight", shape=(64, "width"), dtype="float32", distribution="uniform", low=-0.1, high=0.1),
    ),
    scalars=(Scalar(name="shift", dtype="float", value=2.5),),
    outputs=(Output(name="y", dtype="float32"),),
    arguments=("shift", "x"),
    parameters={"gemm_weight": "gemm.weight"},
    target="Model",
    shapes=({"batch": 32, "width": 48},),
    ranges={"width": (1, 48)},
)
SEED = "def level1_7_gemm(x, gemm_weight, shift):\n    return x\n"


def operator(*seeds: str) -> Operator:
    return operator_of_problem("level1_7_gemm", LINEAR, FOUND, seeds)


def test_the_text_of_the_problem_is_the_reference() -> None:
    made = operator()
    assert made.reference.startswith(LINEAR.rstrip())
    assert "def level1_7_gemm(x, gemm_weight, shift):" in made.reference
    assert "functional_call(_model, {'gemm.weight': gemm_weight}, (shift, x,))" in made.reference
    assert made.shapes[0].dims == {"batch": 32, "width": 48} and made.ranges == {"width": (1, 48)}
    assert made.policy.host == "copy" and made.baselines == ("compile",)
    assert made.precision.allow_tf32 is False, "matrix products are float32 by default"
    convolved = FOUND.model_copy(update={"default_tf32": True})
    assert operator_of_problem("p", LINEAR, convolved).precision.allow_tf32 == "convolutions"
    assert made.seeds == () and operator(SEED).seeds == (SEED,)


def test_a_folder_reads_as_the_same_operator(tmp_path: Path) -> None:
    for seeds in ((), (SEED,), (SEED, f"import triton\n{SEED}")):
        files = files_of_operator(operator(*seeds), ("One note.\nname = 'another'",))
        assert tomllib.loads(files["operator.toml"])["name"] == "level1_7_gemm"
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        assert load_operator(tmp_path).digest == operator(*seeds).digest


def test_a_problem_that_cannot_be_judged_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidInput, match="cannot be judged: line 7: it draws"):
        operator_of_problem("p", LOSS, ProblemInspection(reason="it draws", line=7))


@pytest.mark.parametrize(
    "path, name",
    [
        ("KernelBench/level1/19_ReLU.py", "level1_19_relu"),
        ("level2/1_Conv2D_ReLU_BiasAdd.py", "level2_1_conv2d_relu_biasadd"),
        ("mine/26_GELU_.py", "problem_26_gelu"),
        (
            "level1/72_conv_transposed_3D_asymmetric_input_asymmetric_kernel___strided_padded_grouped_.py",
            "level1_72_conv_transposed_3d_asymmetric_input_asymmetric_ker",
        ),
    ],
)
def test_names_are_those_of_files(path: str, name: str) -> None:
    assert name_of_problem(PurePath(path)) == name


def test_a_function_is_called_with_its_own_arguments() -> None:
    found = FOUND.model_copy(
        update={
            "form": "function",
            "target": "gemm",
            "arguments": ("x", "None", "gemm_weight", "shift"),
            "keywords": {3: "shift"},
            "parameters": {},
        }
    )
    made = operator_of_problem("", "import torch\ndef gemm(x, bias, weight, shift):\n    return x\n", found)
    assert made.name == made.entry == "gemm" and made.baselines is None
    assert "def gemm(x, gemm_weight, shift):" in made.reference
    assert "_results(_function(x, None, gemm_weight, shift=shift))[0]" in made.reference
    assert parts_of_reference(made) is None


@pytest.mark.parametrize(
    "target, body, name, entry",
    [
        ("fused_add_", "return x", "fused_add", "fused_add_"),
        ("RMSNorm", "return other(x)", "rmsnorm", "RMSNorm"),
        ("halve", "return x if n == 0 else halve(x / 2, n - 1) + x", "halve", "halve_operator"),
        ("first", "return other(x, n)", "first", "first_operator"),
    ],
)
def test_candidates_define_the_function_of_the_file(target: str, body: str, name: str, entry: str) -> None:
    source = f"def {target}(x, n=2):\n    {body}\n\n\ndef other(x, n=0):\n    return first(x, n - 1) if n else x * 3\n"
    update = {"form": "function", "target": target, "arguments": ("x",), "inputs": FOUND.inputs[:1], "scalars": ()}
    made = operator_of_problem("", source, FOUND.model_copy(update=update))
    assert (made.name, made.entry) == (name, entry)
    namespace: dict[str, Any] = {}
    exec(made.reference, namespace)
    x = torch.ones(3)
    expected = {"halve": x * 1.75, "RMSNorm": x * 3, "first": x * 3}.get(target, x)
    assert torch.equal(namespace[entry](x), expected)


@pytest.mark.parametrize(
    "target, name",
    [
        ("LlamaMLP", "llama_mlp"),
        ("RMSNorm", "rmsnorm"),
        ("TopKRouter", "top_k_router"),
        ("_f2", "f2"),
        ("x", "x"),
    ],
)
def test_names_are_those_of_functions(target: str, name: str) -> None:
    assert name_of_target(target) == name


def test_problems_are_told_from_specs() -> None:
    assert is_source(LINEAR) and is_source(SEED) and not is_source('name = "rmsnorm"') and not is_source('{"a": 1}')
    assert is_problem(LINEAR) and not is_problem('name = "rmsnorm"') and not is_problem(SEED)
    assert name_of_text(LINEAR).startswith("problem_") and name_of_text(LINEAR) != name_of_text(LOSS)


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("both", "torch.randn(4, 8), torch.randn(4, 8), 2.0"),
        ("normed", "torch.randn(4, 8), torch.zeros(8), torch.ones(8)"),
        ("Counted", "torch.randn(4, 8)"),
    ],
)
def test_a_reference_returns_what_is_no_content_of_an_input(target: str, arguments: str) -> None:
    source = IN_PLACE.replace("ARGUMENTS", arguments)
    made = operator_of_problem("", source, look(source, target=target))
    given = [torch.rand(made.input_shape(item, made.shapes[0].dims)) for item in made.inputs]
    found = evaluate(graph(made, made.shapes[0].dims), given, double=False)
    namespace: dict[str, Any] = {}
    exec(compile(made.reference, "reference", "exec"), namespace)
    own = namespace[made.entry](*given, *(scalar.value for scalar in made.scalars))
    contents = [value for item, value in zip(made.inputs, given, strict=True) if item.mutable]
    wanted = [*((own,) if isinstance(own, torch.Tensor) else own), *contents]
    assert len(wanted) == len(made.outputs) == len(found)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_reference_puts_structures_together() -> None:
    made = operator_of_problem("", STRUCTURED, look(STRUCTURED, target="encode"))
    given = [torch.rand(made.input_shape(item, made.shapes[0].dims)) for item in made.inputs]
    hidden, pooled = evaluate(graph(made, made.shapes[0].dims), given, double=False)
    x, rotation, keys, values = given
    turned = torch.view_as_complex(x.reshape(128, 32, 2)) * torch.view_as_complex(rotation)
    wanted = torch.view_as_real(turned).flatten(-2) * 1e-3 + keys
    torch.testing.assert_close(hidden, wanted.bfloat16())
    torch.testing.assert_close(pooled, (values + 1).mean(0))
