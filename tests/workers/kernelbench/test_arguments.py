"""Arguments of every structure become tensors and numbers with names, and come together again."""

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from workers.kernelbench.arguments import put_together, spelled, split_call
from workers.protocol.kernelbench import GIVEN, HELPERS

A, B = torch.zeros(2, 3), torch.ones(4)


class Pair(NamedTuple):
    left: torch.Tensor
    factor: float


@dataclass(frozen=True)
class Config:
    eps: float = 1e-5
    table: torch.Tensor | None = None


def helpers(example: dict[str, object]) -> dict[str, object]:
    names: dict[str, object] = {GIVEN: example}
    exec(f"import collections.abc\nimport copy\nimport torch\n{HELPERS}", names)
    return names


def again(value: object) -> object:
    split = split_call({"x": value}, {"x": "['x']"})
    other = {name: each + 1 if isinstance(each, torch.Tensor) else each for name, each in split.leaves.items()}
    return put_together(split.texts, other, helpers({"x": value}))["x"]


def test_a_tensor_and_a_number_keep_their_names() -> None:
    split = split_call(
        {"x": A, "eps": 1e-5, "mask": None, "mode": "sum"}, dict.fromkeys(("x", "eps", "mask", "mode"), "")
    )
    assert split.leaves == {"x": A, "eps": 1e-5, "mask": None}
    assert split.texts == {"x": "x", "eps": "eps", "mask": "None", "mode": "'sum'"}


@pytest.mark.parametrize(
    ("value", "leaves", "text"),
    [
        ((A, B), ["x_0", "x_1"], "(x_0, x_1, )"),
        ([(A, B), (B,)], ["x_0_0", "x_0_1", "x_1_0"], "[(x_0_0, x_0_1, ), (x_1_0, )]"),
        ({"ids": A, 3: [2, None]}, ["x_ids"], "{'ids': x_ids, 3: [2, None]}"),
        (torch.bfloat16, [], "torch.bfloat16"),
        ((2, "same", -1.5), [], "(2, 'same', -1.5, )"),
        (torch.zeros(2, dtype=torch.complex64), ["x"], "torch.view_as_complex(x)"),
        (Config(), [], "_given['x']"),
        (Config(table=A), ["x_table"], "_filled(_given['x'], {'table': x_table})"),
        (float("inf"), ["x"], "x"),
        ([float("inf")], [], "[_given['x'][0]]"),
    ],
)
def test_structures_have_one_name_per_tensor(value: object, leaves: list[str], text: str) -> None:
    split = split_call({"x": value}, {"x": "['x']"})
    assert list(split.leaves) == leaves and split.texts == {"x": text}


def test_objects_come_back_with_other_tensors_and_their_own_settings() -> None:
    pair = again(Pair(A, 2.0))
    assert isinstance(pair, Pair) and pair.factor == 2.0 and torch.equal(pair.left, A + 1)
    config = again(Config(1e-3, A))
    assert isinstance(config, Config) and config.eps == 1e-3 and torch.equal(config.table, A + 1)
    graph = again(SimpleNamespace(x=A, edges=(B, B), name="g"))
    assert graph.name == "g" and torch.equal(graph.x, A + 1) and torch.equal(graph.edges[1], B + 1)
    batch = again(OrderedDict(ids=A, length=3))
    assert isinstance(batch, OrderedDict) and batch["length"] == 3 and torch.equal(batch["ids"], A + 1)


def test_a_complex_tensor_comes_back_from_pairs() -> None:
    value = torch.tensor([1 + 2j, 3 - 1j])
    assert torch.equal(again(value), value + (1 + 1j))


def test_names_never_meet() -> None:
    split = split_call({"x": (A,), "x_0": B}, dict.fromkeys(("x", "x_0"), ""))
    assert list(split.leaves) == ["x_0", "x_0_"] and split.texts["x_0"] == "x_0_"
    assert spelled("layers.0.weight", set()) == "layers_0_weight" and spelled("0.bias", set()) == "_0_bias"
    assert spelled("lambda", set()) == "lambda_" and spelled("x", {"x", "x_"}) == "x__"
