"""Calls that are inserted into a graph have what a tracer would have noted."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workers.inductor_seeds.graph_nodes import given_to, insert_call, is_call, value_of


def test_a_call_is_inserted_with_its_fake_result():
    with FakeTensorMode() as mode:
        x = torch.empty(4, 6, dtype=torch.bfloat16)
    traced = make_fx(lambda x: torch.ops.aten.exp.default(x), tracing_mode="real")(x)
    node = next(each for each in traced.graph.nodes if is_call(each, torch.ops.aten.exp.default))
    (source,) = given_to(node)
    assert is_call(node, torch.ops.aten.exp.default, source) and not is_call(node, torch.ops.aten.exp.default, node)
    with mode, traced.graph.inserting_before(node):
        made = insert_call(traced.graph, torch.ops.aten.sum.dim_IntList, source, [1], True, dtype=torch.float32)
    assert (value_of(made).shape, value_of(made).dtype) == ((4, 1), torch.float32)
    assert not is_call("exp", torch.ops.aten.exp.default)
