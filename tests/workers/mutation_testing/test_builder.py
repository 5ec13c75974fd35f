"""A rewritten graph computes what the change makes of it, and nothing else changes."""

import pytest
import torch

from tests.workers.mutation_testing.references import REFERENCES, operator, results, sketch_of
from workers.float8 import readable
from workers.mutation_testing.builder import GraphBuilder, named, rewrite
from workers.protocol import InputRef


@pytest.mark.parametrize("name", REFERENCES)
def test_an_unchanged_graph_computes_the_same(name):
    sketch, inputs = sketch_of(operator(name))
    for got, right in zip(results(rewrite(sketch), inputs), results(sketch.graph, inputs), strict=True):
        assert torch.equal(readable(got).nan_to_num(), readable(right).nan_to_num())


def test_the_forms_of_values_are_known():
    sketch, _ = sketch_of(operator("variance"))
    assert sketch.forms[InputRef(input=0)].shape == (6, 40)
    shapes = {sketch.forms[output].shape for output in sketch.graph.outputs}
    assert shapes == {(6,), (1, 1)}
    assert all(form.is_float and not form.is_half for form in sketch.forms.values())


def test_a_node_is_replaced_and_later_references_follow():
    sketch, (x, w) = sketch_of(operator("rmsnorm"))

    def change(draft, node, index):
        if node.name != "rsqrt":
            return None
        return draft.call("reciprocal.default", draft.call("sqrt.default", node.args[0]))

    graph = rewrite(sketch, change)
    assert len(graph.nodes) == len(sketch.graph.nodes) + 1
    assert torch.allclose(results(graph, (x, w))[0], results(sketch.graph, (x, w))[0], rtol=1e-2)


def test_a_call_with_several_results_is_replaced_by_as_many():
    sketch, (x,) = sketch_of(operator("turned"))

    def change(draft, node, index):
        if node.name != "split":
            return None
        return draft.cut(node.args[0], 1, 20, 40), draft.cut(node.args[0], 1, 0, 20)

    swapped = results(rewrite(sketch, change), (x,))[0]
    assert torch.equal(swapped, results(sketch.graph, (x.roll(20, 1),))[0])


def test_an_input_is_replaced_everywhere():
    sketch, (x,) = sketch_of(operator("causal"))
    draft = GraphBuilder(sketch)
    draft.replace_input(0, draft.call("neg.default", InputRef(input=0)))
    assert torch.equal(results(rewrite(sketch, draft=draft), (x,))[0], results(sketch.graph, (-x,))[0])


def test_names_out_of_a_text():
    assert named(" add\n sub ") == {"add", "sub"}
