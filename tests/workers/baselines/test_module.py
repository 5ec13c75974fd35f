"""A reference graph as a module: the same values as the evaluator's, on the inputs themselves, one to compile."""

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, inputs, small_graph
from workers.baselines.module import spread, to_module
from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef, Shape
from workers.reference import evaluate

CPU = torch.device("cpu")
X = InputRef(input=0)


def graph(*nodes: Node, outputs=None, dtypes=("float32",)) -> Graph:
    return Graph(
        shape=Shape(dims={"N": 4}),
        nodes=nodes,
        outputs=outputs or (NodeRef(node=len(nodes) - 1),),
        output_shapes=((4,),) * len(dtypes),
        output_dtypes=dtypes,
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_a_catalogue_reference_computes_what_the_evaluator_does(name):
    tensors = inputs(OPERATORS[name])
    got = spread(to_module(small_graph(name), len(tensors), CPU))(tensors)
    expected = evaluate(small_graph(name), tensors, double=False)
    assert [output.dtype for output in got] == [output.dtype for output in expected]
    assert all(torch.equal(mine, its) for mine, its in zip(got, expected, strict=True))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_catalogue_reference_is_one_graph_to_the_compiler(name):
    tensors = inputs(OPERATORS[name])
    module = to_module(small_graph(name), len(tensors), CPU)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=False)
    got, expected = spread(compiled)(tensors), spread(module)(tensors)
    assert all(torch.equal(mine, its) for mine, its in zip(got, expected, strict=True))


def test_inputs_are_not_copied():
    x = torch.arange(4.0)
    (same,) = spread(to_module(graph(Node(op="aten.alias.default", args=(X,))), 1, CPU))([x])
    assert same.data_ptr() == x.data_ptr()


def test_inputs_that_the_graph_does_not_read_are_taken_all_the_same():
    (got,) = spread(to_module(graph(Node(op="aten.neg.default", args=(X,))), 3, CPU))([torch.ones(4)] * 3)
    assert got.tolist() == [-1.0] * 4


def test_infinities_dtypes_lists_and_several_results_are_translated():
    fill = Node(op="aten.masked_fill.Scalar", args=(X, InputRef(input=1), "-Infinity"))
    both = Node(op="aten.sort.default", args=(NodeRef(node=0),))
    order = NodeRef(node=1, result=1)
    cast = Node(op="aten._to_copy.default", args=(order,), kwargs={"dtype": DtypeRef(dtype="int32")})
    joined = Node(op="aten.cat.default", args=((NodeRef(node=2), NodeRef(node=2)),))
    outputs = (NodeRef(node=1, result=0), NodeRef(node=3))
    traced = graph(fill, both, cast, joined, outputs=outputs, dtypes=("float32", "int32"))
    mask = torch.tensor([False, True, False, False])
    values, order = spread(to_module(traced, 2, CPU))([torch.tensor([3.0, 2.0, 1.0, 4.0]), mask])
    assert values.tolist() == [float("-inf"), 1.0, 3.0, 4.0]
    assert order.tolist() == [1, 2, 0, 3] * 2
    assert order.dtype == torch.int32


def test_factories_make_their_tensors_where_they_are_told():
    steps = Node(op="aten.arange.default", args=(4,))
    (made,) = spread(to_module(graph(steps), 0, torch.device("meta")))([])
    assert made.device.type == "meta"


@pytest.mark.parametrize("op", ["aten.randn_like.default", "aten.view.dtype", "aten.add.out", "prims.add.default"])
def test_a_forged_graph_is_refused(op):
    with pytest.raises(ValueError, match="may not contain"):
        to_module(graph(Node(op=op, args=(X,))), 1, CPU)


@pytest.mark.parametrize("takes_statistics", [False, True])
def test_a_batch_norm_is_called_as_a_user_does_unless_its_statistics_are_taken(takes_statistics):
    """Eager PyTorch on a card then takes cuDNN's kernels."""
    norm = Node(op="aten.native_batch_norm.default", args=(X, *(None,) * 4, True, 0.1, 1e-5))
    more = [NodeRef(node=0, result=1)] * takes_statistics
    of = graph(norm, outputs=(NodeRef(node=0, result=0), *more), dtypes=("float32",) * (1 + takes_statistics))
    module, x = to_module(of, 1, CPU), torch.randn(8, 3, 5)
    called = {node.target for node in module.graph.nodes}
    assert (torch.ops.aten.batch_norm.default in called) is not takes_statistics
    expected = torch.nn.functional.batch_norm(x, None, None, training=True)
    for function in (module, torch.compile(module, backend="aot_eager", fullgraph=True)):
        assert torch.equal(spread(function)([x])[0], expected)
