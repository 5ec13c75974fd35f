"""A file is loaded without data, but for the constants that it holds."""

import ast

import pytest

from tests.workers.kernelbench.files import FUNCTION
from tests.workers.kernelbench.problems import LINEAR, forward
from workers.kernelbench.loading import ProblemUnfit, find_target, load, spelled
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


def test_names_are_spelled_as_identifiers() -> None:
    assert spelled("layers.0.weight", set()) == "layers_0_weight" and spelled("0.bias", set()) == "_0_bias"
    assert spelled("lambda", set()) == "lambda_" and spelled("x", {"x", "x_"}) == "x__"
