"""Problems are looked at without data, in a jail: what they are, and why some cannot be judged."""

import pytest

from tests.workers.kernelbench.files import FUNCTION, HINTED
from tests.workers.kernelbench.problems import IN_PLACE, LINEAR, LOSS, forward
from workers.kernelbench import inspect, inspection
from workers.kernelbench.inspection import inspect_problem
from workers.protocol import Distribution
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion
from workers.sandbox import SandboxLimits


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
        (forward("return x + self.table", init="self.table = torch.rand(64)"), "random values"),
        (forward("return x", inputs="'text'"), "none of its inputs has a dimension"),
        (forward("return x", inputs="torch.rand(4, 4), 'text'"), "raised"),
        (
            forward("return x", inputs="torch.empty(2**15, 2**14, dtype=torch.int16)"),
            "'x' holds integers of unknown range: make it by torch.randint",
        ),
        (forward("return torch.fft.rfft(x).abs()"), "there is no Fourier transform: references may not use it; "),
        (forward("return x.to_sparse_csr() @ x.T"), "makes a sparse tensor; take its indices and values as arguments"),
        (forward("return x[x.argmax()]", inputs="torch.randn(16)"), "x[i.view(1)]"),
        (forward("return x", init="[setattr(self, f'w{i}', nn.Parameter(torch.ones(2))) for i in range(710)]"), "711"),
        ("import torch\n", "defines no function and no module"),
        ("class Model:\n    pass\ndef get_inputs():\n    return []\n", "defines no 'get_init_inputs'"),
        ("def f(x):\n    return x\ndef g(x):\n    return x\n", "several functions: name one"),
        ("def f(x):\n    return x\n", "define example_inputs()"),
        ("f = 3\ndef g(x):\n    return f\ndef example_inputs():\n    return 3\n", "its examples are a int"),
        ("import transformers_of_old\n", "cannot import transformers_of_old: it is not installed on this host"),
        ("from .layers import gate\n", "cannot import from its own package: put what it needs into one file, or call"),
        ("def forward(:\n", "does not parse"),
    ],
)
def test_a_problem_that_cannot_be_judged_is_told_why(source: str, said: str) -> None:
    found = look(source)
    assert said in found.reason and found.inputs == ()


def test_a_problem_that_ends_its_process_costs_one_jail() -> None:
    found = inspect(ProblemQuestion(source=forward("return x", init="import os; os._exit(3)")))
    assert "the process that inspects it" in found.reason


def test_a_problem_that_takes_too_long_is_told_so_and_not_where_its_stack_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.kernelbench.LIMITS", SandboxLimits(wall_s=2.0))
    found = inspect(ProblemQuestion(source=forward("return x", init="import time; time.sleep(60)")))
    assert "the process that inspects it did not end within 2 s" in found.reason


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


STRUCTURED = """
from dataclasses import dataclass
import torch

@dataclass
class Config:
    eps: float = 1e-5

@dataclass
class Encoded:
    hidden: torch.Tensor
    pooled: torch.Tensor

def encode(x, rotation, past, config, dtype):
    keys, values = past
    hidden = torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * rotation).flatten(-2)
    return Encoded((hidden * config.eps + keys).to(dtype), (values + torch.ones(1, device="cuda")).mean(0))

def example_inputs():
    rotation = torch.polar(torch.ones(32), torch.arange(32).float())
    past = (torch.randn(128, 64, device="cuda"), torch.randn(128, 64))
    return [torch.randn(128, 64), rotation, past, Config(1e-3), torch.bfloat16]
"""


def test_arguments_and_results_of_every_structure_are_inputs_and_outputs() -> None:
    found = look(STRUCTURED, target="encode")
    assert found.reason == "" and (found.objects, found.example) == ("meta", None)
    assert [item.name for item in found.inputs] == ["x", "rotation", "past_0", "past_1"]
    assert found.inputs[1].shape == (32, 2)
    assert found.arguments == (
        *("x", "torch.view_as_complex(rotation)", "(past_0, past_1, )", "_given[3]", "torch.bfloat16"),
    )
    assert [(item.name, item.dtype) for item in found.outputs] == [("hidden", "bfloat16"), ("pooled", "float32")]


NAMED = """
from dataclasses import dataclass
import torch

@dataclass
class Cache:
    keys: torch.Tensor
    values: torch.Tensor

def best(cache, x):
    return torch.topk(cache.keys + cache.values, 4)

def parts(cache, x):
    return {"sum": x.sum(0), "cache": Cache(cache.keys * 2, cache.values), "pair": (x + 1, x + 2), "x": x * 2}

def example_inputs():
    return [Cache(torch.randn(32, 8), torch.randn(32, 8)), torch.randn(32, 8)]
"""


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("best", ["values", "indices"]),
        ("parts", ["sum_", "cache_keys", "cache_values_out", "pair_0", "pair_1", "x_out"]),
    ],
)
def test_results_have_the_names_of_their_fields(target: str, names: list[str]) -> None:
    found = look(NAMED, target=target)
    assert found.reason == "" and [item.name for item in found.inputs[:2]] == ["cache_keys", "cache_values"]
    assert [item.name for item in found.outputs] == [f"{name}_out" if name == "cache_keys" else name for name in names]


def test_a_list_that_one_call_takes_is_tried_where_its_signature_leaves_it_open() -> None:
    text = "import torch\n\ndef f(tensors, factor=1.0):\n    return torch.stack(tensors).sum(0) * factor\n"
    found = look(f"{text}\ndef example_inputs():\n    return [[torch.randn(32, 8), torch.randn(32, 8)]]\n", target="f")
    assert found.reason == "" and found.arguments == ("[tensors_0, tensors_1]",)


def test_mixed_precision_of_a_card_is_refused_because_its_dtypes_would_be_others() -> None:
    found = look(
        forward("return self.inner(x)", init="self.inner = nn.Linear(64, 8)").replace(
            "    def forward", "    @torch.autocast('cuda', dtype=torch.bfloat16)\n    def forward"
        )
    )
    assert "torch.autocast" in found.reason and "x.bfloat16()" in found.reason


def test_sizes_of_weights_alone_are_the_architecture_and_small_batches_are_one() -> None:
    text = """
import torch
from torch import nn

class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions, self.inner = nn.Embedding(512, 64), nn.Linear(96, 64)
    def forward(self, x, y, scale):
        return self.inner(x) + y * scale[:, None, None] + self.positions(torch.arange(x.shape[1], device=x.device))

def example_inputs():
    return [torch.randn(2, 96, 96), torch.randn(2, 96, 64), torch.randn(2)]
"""
    found = look(text, target="Embedded")
    batch, length = found.inputs[0].shape[:2]
    assert found.reason == "" and {batch, length} < set(found.ranges) and batch != length
    assert found.inputs[1].shape[:2] == (batch, length) and found.inputs[2].shape == (batch,)
    assert next(item for item in found.inputs if item.name == "positions_weight").shape[0] == 512


def test_bytes_are_no_indices_and_places_to_write_to_are_different() -> None:
    text = """
import torch

def write(cache, new, at, levels):
    cache.index_copy_(0, at, new * levels)

def example_inputs():
    at = torch.arange(64) * 60
    return [torch.zeros(4096, 16), torch.randn(64, 16), at, torch.randint(0, 256, (64, 1), dtype=torch.uint8)]
"""
    found = look(text, target="write")
    cache, new, at, levels = found.inputs
    assert levels.high == 256.0 and cache.mutable
    assert (at.distribution, at.high) == (Distribution.UNIQUE, cache.shape[0]) and at.shape == new.shape[:1]
    assert found.ranges[str(cache.shape[0])][1] == 4096 and found.ranges[str(at.shape[0])] == (1, 64)


LOOP = """
import torch

def recurrent(x, h):
    for t in range({0}):
        h = torch.tanh(h * 0.5 + x[:, t] * 0.25).clamp(-1, 1)
    return h

def example_inputs():
    return [torch.randn(32, {0}, 64), torch.randn(32, 64)]
"""


def test_a_long_loop_says_why_its_sizes_stay_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "MOST_OPERATIONS", 3000)
    short, long = (look(LOOP.format(steps), target="recurrent") for steps in (4, 200))
    assert short.ranges and not any("are too many" in note for note in short.notes)
    assert not long.ranges and "`[ranges]`" in long.notes[-1]


def test_get_inputs_beside_another_class_is_named() -> None:
    text = "import torch\n\nclass Net(torch.nn.ReLU):\n    pass\n\ndef get_inputs():\n    return [torch.randn(4, 4)]\n"
    assert "'Net' is called with; get_inputs() counts beside a class Model alone" in look(text, target="Net").reason
    assert "get_inputs" not in look(text.replace("get_inputs", "given"), target="Net").reason


PAGED = """
import torch

def write(cache, new, slots):
    {0}

def example_inputs():
    slots = torch.randperm(1024)[:64]
    slots[5] = {1}
    return [torch.zeros(64, 16, 32), torch.randn(64, 32), slots]
"""
PADDED = """rows = torch.cat([cache.view(1024, 32), cache[0, :1]])
    at = torch.where(slots >= 0, slots, 1024)
    cache.copy_(rows.index_copy(0, at, new)[:1024].view_as(cache))"""


@pytest.mark.parametrize(
    ("body", "value", "marker"),
    [("cache[slots // 16, slots % 16] = new", "slots[5]", None), (PADDED, "-1", -1)],
    ids=["pages", "one padded"],
)
def test_places_that_are_computed_from_slots_are_different_slots(body: str, value: str, marker: int | None) -> None:
    found = look(PAGED.format(body, value), target="write")
    slots = found.inputs[2]
    assert (slots.distribution, slots.marker, slots.high) == (Distribution.UNIQUE, marker, 1024.0), found.reason
    assert "different indices below 1024 in the examples" in found.notes[-1]


def test_places_that_two_inputs_decide_are_those_of_none() -> None:
    text = """
import torch

def write(cache, new, base, step):
    cache[base[:, None] + step[None, :]] = new

def example_inputs():
    return [torch.zeros(1024, 32), torch.randn(2, 8, 32), torch.tensor([5, 0]), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])]
"""
    found = look(text, target="write")
    assert [item.distribution for item in found.inputs[2:]] == [None, None], found.reason


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
