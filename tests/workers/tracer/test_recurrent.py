"""Recurrent layers stay whole in a graph, with their shapes and their products counted."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.workers.mutation_testing.references import LAYERS, graphs_of, operator
from workers.tracer.recurrent import PlainCells, WholeLayers, operation_of
from workers.tracer.reference import without_fast_paths


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_operation_with_its_products_counted(name: str) -> None:
    (graph,) = graphs_of(operator(name))
    assert [node.op for node in graph.nodes] == [f"aten.{name}.input"]
    gates, sides = LAYERS[name][1], 2 if LAYERS[name][2] else 1
    columns = (3 + 5) + (5 * sides + 5)
    assert graph.matrix_flops == 2 * 6 * 4 * gates * 5 * columns * sides
    assert graph.output_shapes[0] == (6, 4, 5 * sides) and graph.output_shapes[1] == (2 * sides, 6, 5)


@pytest.mark.parametrize("sizes", [{"batch_first": False}, {"bias": False}, {"proj_size": 2}, {"bidirectional": True}])
def test_shapes_are_those_of_torch(sizes: dict) -> None:
    layer, x = torch.nn.LSTM(3, 5, 2, **sizes), torch.randn(7, 2, 3)
    with without_fast_paths():
        right, states = layer(x)
    with FakeTensorMode(allow_non_fake_inputs=True), WholeLayers():
        found, fake_states = layer(torch.empty(7, 2, 3))
    assert found.shape == right.shape and [s.shape for s in fake_states] == [s.shape for s in states]


def test_packed_sequences_and_dropout_in_training_are_left_to_torch() -> None:
    layer = torch.nn.GRU(3, 5, 2, dropout=0.5)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(4, 2, 3), torch.tensor([4, 2]))
    with torch.no_grad(), WholeLayers():
        found, _ = layer.eval()(packed)
        assert found.data.shape == (6, 5)
        assert layer.train()(torch.randn(4, 2, 3))[0].shape == (4, 2, 5)
    assert operation_of("kernelreef_layers", "gru", "default") == "aten.gru.input"
    assert operation_of("aten", "add", "Tensor") == "aten.add.Tensor"


@pytest.mark.parametrize(
    "made",
    [
        torch.nn.LSTMCell(5, 7),
        torch.nn.LSTMCell(5, 7, bias=False),
        torch.nn.GRUCell(5, 7),
        torch.nn.RNNCell(5, 7),
        torch.nn.RNNCell(5, 7, nonlinearity="relu"),
    ],
    ids=str,
)
def test_steps_written_out_compute_what_torchs_own_do(made: torch.nn.Module):
    with torch.no_grad():
        x = torch.randn(3, 5)
        right = made(x)
        with PlainCells():
            found = made(x)
    first, other = (each[0] if isinstance(each, tuple) else each for each in (found, right))
    assert torch.allclose(first, other, atol=1e-6)


def operations(made: torch.nn.Module, *sizes: int) -> set[str]:
    with torch.no_grad(), PlainCells():
        traced = make_fx(lambda x: made(x)[0])(torch.randn(*sizes))
    return {str(node.target) for node in traced.graph.nodes if node.op == "call_function"}


def test_steps_written_out_change_nothing_in_place():
    found = operations(torch.nn.LSTMCell(5, 7), 3, 5)
    assert "aten.tanh.default" in found and not any("_.default" in name for name in found)
