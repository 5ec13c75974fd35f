"""Tensors that a reference makes before it is called become operations of its graph."""

import json

import pytest
import torch

from workers.protocol import Graph, Input, Operator, Output, Shape, TraceJob
from workers.reference import evaluate
from workers.tracer.constants import Recorder
from workers.tracer.reference import export

SIZE = 6


def reply(before: str, line: str) -> dict:
    text = f"import torch\n\n{before}\n\ndef op(x):\n    return {line}\n"
    spec = Operator(
        name="op",
        entry="op",
        reference=text,
        inputs=(Input(name="x", shape=("M", SIZE), dtype="float32"),),
        outputs=(Output(name="y", dtype="float32"),),
        shapes=({"dims": {"M": SIZE}},),
    )
    job = TraceJob(id="j", search="s", operator=spec, shapes=(Shape(dims={"M": SIZE}),), target="sm_90")
    return json.loads(export(job.model_dump_json().encode()))


@pytest.mark.parametrize(
    "before, line",
    [
        ("MASK = torch.tril(torch.ones(8, 8)).view(1, 8, 8)", f"x.masked_fill(MASK[0, :{SIZE}, :{SIZE}] == 0, 0.0)"),
        ("TAPS = torch.tensor([0.5, -1.0, 2.0, 4.0, 8.0, 16.0])", "x * TAPS"),
        ("HOLES = torch.zeros(8, 8)\nHOLES[2:, :3] = 1\nHOLES[0, 0].fill_(7.0)", f"x + HOLES[:{SIZE}, :{SIZE}]"),
        ("WAVES = 1.0 / 100.0 ** (torch.arange(0, 12, 2).float() / 12)", "torch.cos(x * WAVES)"),
        ("PARTS = [torch.eye(6), torch.arange(6.0)]", "x @ PARTS[0] + PARTS[1] + PARTS[1]"),
        ("BLANK = torch.empty(6)\nBLANK.fill_(3.0)", "x - BLANK"),
    ],
)
def test_a_constant_is_made_in_the_graph(before: str, line: str) -> None:
    graph = Graph.model_validate(reply(before, line)["graphs"][0])
    namespace: dict = {"torch": torch}
    exec(before, namespace)
    x = torch.randn(SIZE, SIZE)
    expected = eval(line, {**namespace, "x": x})
    assert torch.allclose(evaluate(graph, [x], double=False)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("before", ["HELD = torch.randn(6, 6)", "HELD = torch.empty(6, 6)"])
def test_a_tensor_that_is_written_before_it_is_read_needs_no_values(before: str) -> None:
    """A module keeps a state so: the last argument, or what it was made with."""
    graph = Graph.model_validate(reply(before, "(HELD.copy_(x) * 2) + HELD")["graphs"][0])
    x = torch.randn(SIZE, SIZE)
    assert torch.equal(evaluate(graph, [x], double=False)[0], x * 2 + x)
    assert "random values" in reply(before, "HELD * 1 + HELD.copy_(x)")["reason"]
    assert "random values" in reply(before, "HELD[:2].copy_(x[:2]) + HELD[:2] + HELD[2:4]")["reason"]


def test_a_tensor_that_the_function_makes_from_numbers_is_made_in_the_graph() -> None:
    line = "x[:, torch.tensor([5, 0, 3], device=x.device)] * torch.tensor([[0.5], [1.0], [-2.0]] * 2)"
    graph = Graph.model_validate(reply("", line)["graphs"][0])
    x = torch.randn(SIZE, SIZE)
    assert torch.equal(evaluate(graph, [x], double=False)[0], eval(line, {"torch": torch, "x": x}))
    assert "holds a tensor of 6000 numbers" in reply("", "x * torch.tensor([1.0] * 6000)[:6]")["reason"]


@pytest.mark.parametrize(
    "before, said",
    [
        ("TABLE = torch.randn(6)", "random values"),
        ("TABLE = torch.ones(6) * torch.rand(6)", "random values"),
        ("TABLE = torch.empty(6)", "random values"),
        ("TABLE = torch.tensor([float(i) for i in range(6000)])[:6]", "holds a tensor of 6000 numbers"),
    ],
)
def test_a_tensor_that_cannot_be_repeated_is_refused(before: str, said: str) -> None:
    assert said in reply(before, "x * TABLE")["reason"]


def test_random_numbers_are_not_drawn_into_parameters() -> None:
    with Recorder() as recorder:
        weight = torch.zeros(4)
        weight.uniform_()
        table = torch.arange(4)
    assert weight.tolist() == [0.0] * 4
    assert recorder.is_constant(table) and not recorder.is_constant(weight)
    assert not recorder.knows(torch.ones(2))


def test_large_weights_take_no_memory() -> None:
    with Recorder() as recorder, torch.device("cpu"):
        layer = torch.nn.Linear(2**16, 2**16)
        start = torch.randn(2**20, 2**10)
    assert layer.weight.shape == (2**16, 2**16) and layer.weight.untyped_storage().nbytes() <= 8
    assert start.untyped_storage().nbytes() <= 8 and not recorder.is_constant(start)
