"""Functions and modules in memory become files that compute the same."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from workers.kernelbench.inspection import inspect_problem
from workers.kernelbench.traced_text import NotTraceable, traced_text
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion


def loaded(text: str, name: str) -> Callable[..., object]:
    namespace: dict = {}
    exec(text, namespace)
    return namespace[name]


def test_a_closure_becomes_a_file_that_serves_other_sizes() -> None:
    factor = 0.25

    def scores(q: torch.Tensor, k: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) * scale * factor, -1)

    text = traced_text(scores, [[torch.randn(2, 8, 4), torch.randn(2, 8, 4), 3.0]], "scores")
    q, k = torch.randn(3, 5, 4), torch.randn(3, 7, 4)
    assert torch.allclose(loaded(text, "scores")(q, k)[0], scores(q, k, 3.0))
    question = ProblemQuestion(source=text, target="scores").model_dump_json().encode()
    found = ProblemInspection.model_validate_json(inspect_problem(question))
    assert found.reason == "" and [item.name for item in found.inputs] == ["q", "k"]


def test_the_weights_of_a_module_are_arguments() -> None:
    module = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    text = traced_text(module, [{"src": torch.randn(2, 4, 16)}], "layer")
    x = torch.randn(3, 6, 16)
    with torch.no_grad():
        assert torch.allclose(loaded(text, "layer")(x, *module.parameters())[0], module(x), atol=1e-5)


def test_integers_and_flags_keep_their_ranges() -> None:
    def picked(table: torch.Tensor, rows: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return torch.where(kept[:, None], table[rows], 0.0)

    example = [torch.randn(9, 4), torch.tensor([0, 8, 3]), torch.tensor([True, False, True])]
    text = traced_text(picked, [example], "picked")
    assert "torch.tensor([0, 8, 3], dtype=torch.int64)" in text and "torch.rand((3,)) > 0.5" in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch._dynamo, at its import
def test_arguments_of_every_structure_and_small_constants_are_traced() -> None:
    @dataclass
    class Settings:
        factor: float

    @torch.compile
    def mixed(pair: tuple, settings: Settings, turned: torch.Tensor) -> dict:
        left, right = pair["both"]
        return {"y": left * settings.factor + right[:, [-1]], "z": torch.view_as_complex(left.reshape(-1, 2)) * turned}

    pair = {"both": (torch.randn(3, 4), torch.randn(3, 4))}
    turned = torch.tensor([1 + 2j] * 6)
    text = traced_text(mixed, [[pair, Settings(3.0), turned]], "mixed")
    found = loaded(text, "mixed")(*pair["both"], torch.view_as_real(turned))
    left, right = pair["both"]
    assert torch.allclose(found[0], left * 3.0 + right[:, -1:])
    assert torch.allclose(torch.view_as_complex(found[1]), torch.view_as_complex(left.reshape(-1, 2)) * turned)


LARGE = torch.randn(1000)


@pytest.mark.parametrize(
    "function, example, said",
    [
        (lambda x: x + LARGE, [torch.ones(1000)], "1000 numbers that is neither an argument nor a parameter"),
        (lambda n: torch.ones(n), [3], "none of its arguments is a tensor"),
    ],
)
def test_what_cannot_be_traced_is_refused(function: Callable[..., object], example: list, said: str) -> None:
    with pytest.raises(NotTraceable, match=said):
        traced_text(function, [example], "f")
    with pytest.raises(NotTraceable, match="differ in their tensors"):
        traced_text(torch.add, [[torch.ones(2), torch.ones(2)], [torch.ones(2), 3]], "f")
