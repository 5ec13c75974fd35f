"""A file is loaded without data, but for the constants that it holds."""

import ast

import pytest

from tests.workers.kernelbench.files import FUNCTION
from tests.workers.kernelbench.problems import LINEAR, forward
from workers.kernelbench.loading import ProblemUnfit, find_target, load
from workers.protocol.kernelbench import ProblemQuestion


def test_the_weights_of_a_module_have_no_data_and_large_ones_cost_nothing() -> None:
    text = forward("return self.inner(x)", "torch.rand(4, 100_000)", "self.inner = nn.Linear(100_000, 100_000)")
    found = load(ProblemQuestion(source=text))
    assert not found.real and all(tensor.made.is_meta for tensor in found.tensors)


def test_numbers_of_the_text_and_notes_are_kept() -> None:
    found = load(ProblemQuestion(source=LINEAR))
    assert found.sizes == {"batch_size": 32, "in_features": 48, "out_features": 64} and found.notes == ()
    assert list(found.arguments) == ["x", "shift"] and found.module is not None
    assert load(ProblemQuestion(source=FUNCTION)).module is None


def test_examples_that_read_values_are_made_with_data() -> None:
    text = FUNCTION.replace("torch.randn(64, 128), 1e-5", "torch.ones(int(torch.arange(65).max()), 128), 1e-5")
    assert load(ProblemQuestion(source=text)).shapes[0] == (64, 128)


def test_helpers_are_no_targets() -> None:
    tree = ast.parse(FUNCTION)
    namespace: dict = {}
    exec(FUNCTION, namespace)
    assert find_target(tree, namespace, "") == find_target(tree, namespace, "gated") == ("function", "gated")
    with pytest.raises(ProblemUnfit, match="defines no 'other'"):
        find_target(tree, namespace, "other")
    with pytest.raises(ProblemUnfit, match="'number' is a int"):
        find_target(tree, {"number": 3}, "number")


def test_examples_must_agree() -> None:
    text = FUNCTION.replace("return [torch", "return (1, 2), [torch")
    with pytest.raises(ProblemUnfit, match="differ in their number of arguments"):
        load(ProblemQuestion(source=text))


METHODS = """
import torch
from torch import nn

class Scaler:
    def __init__(self, factor=2.0):
        self.factor = factor
    def transform(self, x):
        return x * self.factor
    @staticmethod
    def doubled(x):
        return x * 2

class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.inner = nn.Linear(width, width)
    def encode(self, x):
        return self.inner(x)

class Sized(nn.Module):
    def __init__(self, width):
        super().__init__()

scaler, encoder = Scaler(3.0), Encoder()

def example_inputs():
    return [torch.randn(32, 8)]
"""


@pytest.mark.parametrize(
    ("target", "form", "text"),
    [
        ("Scaler.transform", "function", "Scaler().transform"),
        ("Scaler.doubled", "function", "Scaler.doubled"),
        ("scaler.transform", "function", "scaler.transform"),
        ("Encoder.encode", "method", "Encoder().encode"),
        ("encoder.encode", "method", "encoder.encode"),
        ("encoder.inner", "module", "encoder.inner"),
    ],
)
def test_a_method_or_an_attribute_is_a_target(target: str, form: str, text: str) -> None:
    found = load(ProblemQuestion(source=METHODS, target=target))
    assert (found.form, found.target) == (form, text)
    assert [tensor.parameter for tensor in found.tensors if tensor.parameter] == (
        [] if form == "function" else ["inner.weight", "inner.bias"] if form == "method" else ["weight", "bias"]
    )


def test_what_has_no_such_attribute_or_needs_settings_is_told() -> None:
    with pytest.raises(ProblemUnfit, match="'Encoder' has no 'decode'"):
        load(ProblemQuestion(source=METHODS, target="Encoder.decode"))
    with pytest.raises(ProblemUnfit, match=r"'Sized' takes arguments: make one in the file, as in `model = Sized"):
        load(ProblemQuestion(source=METHODS, target="Sized"))


LISTS = """
import torch

def summed(tensors, factor: float = 1.0):
    return torch.stack(tensors).sum(0) * factor

def pair(first, second):
    return first + second[0]

def example_inputs():
    EXAMPLES
"""


@pytest.mark.parametrize(
    ("target", "examples", "count", "ambiguous"),
    [
        ("summed", "return [[torch.randn(4, 8), torch.randn(4, 8), torch.randn(4, 8)]]", 3, False),
        ("summed", "return [[torch.randn(4, 8), torch.randn(4, 8)]]", 2, True),
        (
            "pair",
            "return [torch.randn(4, 8), torch.randn(2, 4, 8)], [torch.randn(9, 8), torch.randn(3, 9, 8)]",
            2,
            True,
        ),
        ("pair", "return [[torch.randn(4, 8)] * 2] * 3", 2, False),
    ],
)
def test_lists_of_lists_are_examples_or_arguments_as_the_signature_has_room(
    target: str, examples: str, count: int, ambiguous: bool
) -> None:
    question = ProblemQuestion(source=LISTS.replace("EXAMPLES", examples), target=target)
    found = load(question)
    assert len(found.tensors) == count and found.is_ambiguous == ambiguous
    assert not load(question, single=True).is_ambiguous if target == "summed" else True


def test_a_file_for_a_card_is_read_without_one() -> None:
    text = "import torch\n\n@torch.jit.script\ndef f(x, y):\n    return x + y\n\ndef example_inputs():\n"
    found = load(
        ProblemQuestion(source=f"{text}    return [torch.randn(32, 8, device='cuda'), torch.randn(8).cuda()]\n")
    )
    assert found.shapes == [(32, 8), (8,)]


def test_a_sparse_tensor_is_refused_and_another_layout_is_noted() -> None:
    text = (
        "import torch\n\ndef f(x):\n    return x * 2\n\ndef example_inputs():\n    return [torch.randn(32, 8)LAYOUT]\n"
    )
    assert "'x' is not contiguous" in load(ProblemQuestion(source=text.replace("LAYOUT", ".t()"))).notes[0]
    with pytest.raises(ProblemUnfit, match="'x' is a sparse tensor; take its indices and values"):
        load(ProblemQuestion(source=text.replace("torch.randn(32, 8)LAYOUT", "torch.eye(4, device='cpu').to_sparse()")))
