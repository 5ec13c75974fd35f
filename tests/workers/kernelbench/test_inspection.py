"""Problems are looked at without data, in a jail: what they are, and why some cannot be judged."""

import pytest

from tests.workers.kernelbench.problems import LINEAR, LOSS, forward
from workers.kernelbench import inspect
from workers.kernelbench.inspection import inspect_problem
from workers.protocol import Distribution
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion


def look(source: str, *, published: bool = False) -> ProblemInspection:
    request = ProblemQuestion(source=source, published=published).model_dump_json().encode()
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
    assert found.dims == {"batch_size": 32, "in_features": 48, "out_features": 64}
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
    assert alone.dims == {"D0": 32} and alone.ranges == {}


def test_a_buffer_is_an_input_and_a_reader_is_told() -> None:
    mask = "self.register_buffer('mask', torch.ones(64, 64).tril())"
    found = look(forward("return x.masked_fill(self.mask[: x.shape[0], : x.shape[1]] == 0, 0.0)", init=mask))
    assert [item.name for item in found.inputs] == ["x", "mask"] and found.inputs[1].low == 0.0
    assert any("buffer 'mask'" in note for note in found.notes)


@pytest.mark.parametrize(
    "source, said",
    [
        (forward("return self.drop(x)", init="self.drop = nn.Dropout(0.5)"), "draws random numbers, as dropout"),
        (forward("return x[x > 0.5]"), "depends on values"),
        (forward("return {'y': x}"), "what forward returns is a dict"),
        (forward("return x.to(torch.complex64)"), "dtype complex64"),
        (forward("return x + self.table", init="self.table = torch.ones(64)"), "raised"),
        (forward("return x", inputs="'text'"), "none of its inputs has a dimension"),
        (forward("return x", inputs="torch.rand(4, 4), 'text'"), "raised"),
        (forward("return x", inputs="torch.randint(0, 9, (16,)).cumsum(0)"), "holds integers"),
        (forward("return x", init="[setattr(self, f'w{i}', nn.Parameter(torch.ones(2))) for i in range(40)]"), "41"),
        ("import torch\n", "defines no 'Model'"),
        ("import transformers_of_old\n", "cannot import transformers_of_old"),
        ("def forward(:\n", "does not parse"),
    ],
)
def test_a_problem_that_cannot_be_judged_is_told_why(source: str, said: str) -> None:
    found = look(source)
    assert said in found.reason and found.inputs == ()


def test_a_problem_that_ends_its_process_costs_one_jail() -> None:
    found = inspect(ProblemQuestion(source=forward("return x", init="import os; os._exit(3)")))
    assert "the process that inspects it" in found.reason
