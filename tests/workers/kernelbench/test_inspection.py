"""Problems are looked at without data, in a jail: what they are, and why some cannot be judged."""

import pytest

from tests.workers.kernelbench.files import FUNCTION, HINTED
from tests.workers.kernelbench.problems import IN_PLACE, LINEAR, LOSS, forward
from workers.kernelbench import inspect
from workers.kernelbench.inspection import inspect_problem
from workers.protocol import Distribution
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion


def look(source: str, *, target: str = "", published: bool = False) -> ProblemInspection:
    request = ProblemQuestion(source=source, target=target, published=published).model_dump_json().encode()
    return ProblemInspection.model_validate_json(inspect_problem(request))


def test_parameters_become_inputs_and_numbers_scalars() -> None:
    found = look(LINEAR)
    assert found.reason == ""
    assert [item.name for item in found.inputs] == ["x", "gemm_weight", "gemm_bias", "norm_weight", "norm_bias"]
    assert found.arguments == ("x", "shift")
    assert [(scalar.name, scalar.value) for scalar in found.scalars] == [("shift", 2.5)]
    assert found.parameters["gemm_weight"] == "gemm.weight"
    assert found.inputs[1].shape == ("out_features", "in_features")
    assert found.inputs[1].constant and not found.inputs[0].constant
    assert found.shapes == ({"batch_size": 32, "in_features": 48, "out_features": 64},)
    assert found.ranges == {"batch_size": (2, 32), "in_features": (1, 48), "out_features": (1, 64)}
    assert any("statistics of its batch" in note for note in found.notes)


def test_inputs_are_drawn_widely_unless_asked_for_as_published() -> None:
    assert look(LINEAR).inputs[0].distribution is None
    as_published = look(LINEAR, published=True).inputs[0]
    assert (as_published.distribution, as_published.low, as_published.high) == (Distribution.UNIFORM, 0.0, 1.0)


def test_indices_stay_below_the_dimension_that_they_index() -> None:
    found = look(LOSS)
    assert found.inputs[1].dtype == "int64" and found.inputs[1].high == found.inputs[0].shape[1] == "D1"


def test_sizes_that_the_module_fixes_stay() -> None:
    found = look(forward("return self.norm(x)", init="self.norm = nn.LayerNorm(64)"))
    assert found.inputs[0].shape == ("D0", 64) and found.ranges == {"D0": (1, 32)}
    alone = look(forward("return x.reshape(2, 512, 2)"))
    assert alone.shapes == ({"D0": 32},) and alone.ranges == {}


def test_a_constant_buffer_stays_in_the_reference_and_a_state_is_an_input() -> None:
    mask = "self.register_buffer('mask', torch.ones(64, 64).tril())"
    found = look(forward("return x.masked_fill(self.mask[: x.shape[0], : x.shape[1]] == 0, 0.0)", init=mask))
    assert [item.name for item in found.inputs] == ["x"] and found.real
    assert any("buffer 'mask' is constant" in note for note in found.notes)
    state = look(forward("return x - self.mean", init="self.register_buffer('mean', torch.zeros(64))"))
    assert [item.name for item in state.inputs] == ["x", "mean"] and not state.real
    assert any("buffer 'mean' becomes an input" in note for note in state.notes)


def test_a_plain_attribute_and_a_value_read_by_a_constructor_are_constants() -> None:
    table = look(forward("return x + self.table", init="self.table = torch.arange(64)"))
    assert table.reason == "" and [item.name for item in table.inputs] == ["x"] and table.real
    rates = look(forward("return x * self.rates[1]", init="self.rates = [r.item() for r in torch.linspace(0, 1, 4)]"))
    assert rates.reason == "" and rates.real


def test_dropout_is_left_out() -> None:
    found = look(forward("return self.drop(x)", init="self.drop = nn.Dropout(0.5)"))
    assert found.reason == "" and any("Dropout is left out" in note for note in found.notes)


def test_batch_height_and_width_are_three_dimensions() -> None:
    pooled = forward("return nn.functional.avg_pool2d(x, 3)", "torch.rand(batch, 16, height, width)")
    found = look(f"{pooled}\nbatch = 32\nheight = 32\nwidth = 32\n")
    assert found.inputs[0].shape == ("batch", "D1", "height", "width")
    assert found.ranges["batch"] == (1, 32) and found.ranges["height"] == (3, 32)


def test_a_function_is_inspected_with_its_example_inputs() -> None:
    found = look(FUNCTION)
    assert (found.form, found.target, found.arguments) == ("function", "gated", ("x", "eps", "weight", "None"))
    assert [item.shape for item in found.inputs] == [("rows", "columns"), ("columns",)]
    assert [scalar.name for scalar in found.scalars] == ["eps"] and len(found.outputs) == 1


def test_a_function_is_inspected_with_its_hints() -> None:
    found = look(HINTED)
    assert [item.shape for item in found.inputs] == [("rows", "WIDTH"), ("WIDTH",)]
    assert [item.dtype for item in found.inputs] == ["bfloat16", "float32"] and found.scalars == ()
    assert found.ranges == {"rows": (1, 1024), "WIDTH": (1, 96)}
    assert any("'rows' has no size; 1024 was taken" in note for note in found.notes)


def test_several_examples_tell_what_varies() -> None:
    several = FUNCTION.replace(
        "return [torch.randn(64, 128), 1e-5, torch.randn(128), None]", "return [rows(64), rows(256)]"
    )
    found = look(
        f"{several}\ndef rows(n):\n    return torch.randn(n, 128), 1e-5, torch.randn(128), None\n", target="gated"
    )
    assert found.shapes == ({"rows": 64}, {"rows": 256}) and found.ranges == {"rows": (1, 256)}
    assert found.inputs[1].shape == (128,)


def test_a_module_is_inspected_as_in_inference() -> None:
    text = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x, mask=None):
        return {"out": torch.dropout(self.norm(self.inner(x)), 0.5, self.training), "mask": mask}

block = Block()

def make():
    return Block(64)

def example_inputs():
    return {"x": torch.randn(32, 64)}
"""
    for target in ("block", "Block", "make"):
        found = look(text, target=target)
        assert found.reason == "" and found.keywords == {0: "x"}
        names = [item.name for item in found.inputs]
        assert names[:3] == ["x", "inner_weight", "inner_bias"] and "norm_running_mean" in names
        assert found.inputs[0].shape[0] == "D0" and not any(item.name == "mask" for item in found.inputs)


@pytest.mark.parametrize(
    "source, said",
    [
        (forward("return torch.dropout(x, 0.5, True)"), "draws random numbers, as dropout"),
        (forward("return x[x > 0.5]"), "depends on values"),
        (forward("return {'y': 1}"), "its results have no tensor"),
        (forward("return x.to(torch.complex64)"), "torch.view_as_real"),
        (forward("return x", inputs="torch.zeros(4, 16, dtype=torch.complex64)"), "torch.view_as_complex"),
        (forward("return x + self.table", init="self.table = torch.rand(64)"), "random values"),
        (forward("return x", inputs="'text'"), "none of its inputs has a dimension"),
        (forward("return x", inputs="torch.rand(4, 4), 'text'"), "raised"),
        (forward("return x", inputs="torch.randint(0, 9, (16,)).cumsum(0).to(torch.int16)"), "holds integers"),
        (forward("return x", init="[setattr(self, f'w{i}', nn.Parameter(torch.ones(2))) for i in range(710)]"), "711"),
        ("import torch\n", "defines no function and no module"),
        ("class Model:\n    pass\ndef get_inputs():\n    return []\n", "defines no 'get_init_inputs'"),
        ("def f(x):\n    return x\ndef g(x):\n    return x\n", "several functions: name one"),
        ("def f(x):\n    return x\n", "define example_inputs()"),
        ("f = 3\ndef g(x):\n    return f\ndef example_inputs():\n    return 3\n", "its examples are a int"),
        ("import transformers_of_old\n", "cannot import transformers_of_old: it is not installed on this host"),
        ("def forward(:\n", "does not parse"),
    ],
)
def test_a_problem_that_cannot_be_judged_is_told_why(source: str, said: str) -> None:
    found = look(source)
    assert said in found.reason and found.inputs == ()


def test_a_problem_that_ends_its_process_costs_one_jail() -> None:
    found = inspect(ProblemQuestion(source=forward("return x", init="import os; os._exit(3)")))
    assert "the process that inspects it" in found.reason


def test_einops_runs_in_the_sandbox() -> None:
    pytest.importorskip("einops")
    problem = forward("return rearrange(x, 'a (b c) -> b (a c)', b=4)")
    assert look(f"from einops import rearrange\n{problem}").reason == ""


def test_a_recurrent_model_of_many_positions_is_inspected_in_seconds() -> None:
    layer = "nn.LSTM(64, 64, 4, batch_first=True, bidirectional=True)"
    found = look(forward("return self.layer(x[None])[0]", init=f"self.layer = {layer}", inputs="torch.rand(512, 64)"))
    assert found.reason == "" and len(found.inputs) == 1 + 4 * 2 * 4


@pytest.mark.parametrize(
    "line, init, inputs, expected",
    [
        ("return self.inner(x)", "self.inner = nn.Conv2d(3, 4, 3)", "torch.rand(2, 3, 9, 9)", True),
        ("return self.inner(x)", "self.inner = nn.ConvTranspose1d(3, 4, 3)", "torch.rand(2, 3, 9)", True),
        ("return self.inner(x)[0]", "self.inner = nn.GRU(8, 8)", "torch.rand(4, 2, 8)", True),
        ("return self.inner(x)", "self.inner = nn.Conv1d(3, 4, 3).bfloat16()", "torch.rand(2, 3, 9).bfloat16()", False),
        ("return self.inner(x)", "self.inner = nn.Linear(64, 8)", "torch.rand(32, 64)", False),
    ],
)
def test_tf32_is_allowed_only_where_defaults_of_pytorch_use_it(
    line: str, init: str, inputs: str, expected: bool
) -> None:
    found = look(forward(line, inputs, init))
    assert found.reason == "" and found.default_tf32 is expected


def test_a_result_has_no_name_of_an_input() -> None:
    text = forward("return x + 1").replace("forward(self, x)", "forward(self, y)").replace("x + 1", "y + 1")
    found = look(text)
    assert found.reason == "" and [item.name for item in (*found.inputs, *found.outputs)] == ["y", "y_out"]


@pytest.mark.parametrize(
    ("target", "arguments", "changed", "outputs"),
    [
        ("both", "torch.randn(4, 8), torch.randn(4, 8), 2.0", ["x", "y"], ["y_out", "x", "y"]),
        ("normed", "torch.randn(4, 8), torch.zeros(8), torch.ones(8)", ["mean", "var"], ["y", "mean", "var"]),
        ("Counted", "torch.randn(4, 8)", ["seen"], ["seen"]),
    ],
)
def test_inputs_that_are_changed_in_place_are_results(
    target: str, arguments: str, changed: list[str], outputs: list[str]
) -> None:
    source = IN_PLACE.replace("ARGUMENTS", arguments)
    found = look(source, target=target)
    assert found.reason == ""
    assert [item.name for item in found.inputs if item.mutable] == changed
    assert not any(item.constant for item in found.inputs if item.mutable)
    assert [item.name for item in found.outputs] == outputs
    assert sum("is changed in place" in note for note in found.notes) == len(changed)


def test_a_complex_argument_is_refused_by_its_dtype() -> None:
    text = IN_PLACE.replace("ARGUMENTS", "torch.randn(4, 8), torch.zeros(4, 8, dtype=torch.complex64), 1.0")
    assert "torch.view_as_complex" in look(text, target="both").reason


def test_an_empty_example_widens_its_range_and_is_not_timed() -> None:
    source = """
import torch

def doubled(x):
    return x * 2

def example_inputs():
    yield torch.randn(0, 16),
    yield torch.randn(64, 16),
"""
    found = look(source)
    assert found.reason == "" and found.shapes == ({"D0": 64},) and found.ranges == {"D0": (0, 64)}
