import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workers.protocol.documents import changed
from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef

GRAPH: dict[str, Any] = {
    "shape": {"dims": {"M": 8}},
    "nodes": [
        {"op": "aten.mul.Tensor", "args": [{"kind": "input", "input": 0}, 2.0], "kwargs": {}},
        {"op": "aten.cat.default", "args": [[{"kind": "node", "node": 0}, {"kind": "input", "input": 0}], -1]},
    ],
    "outputs": [{"kind": "node", "node": 1}],
    "output_shapes": [[16]],
    "output_dtypes": ["float32"],
}


def test_an_honest_graph_survives_json() -> None:
    graph = Graph.model_validate(GRAPH)
    assert Graph.model_validate_json(graph.model_dump_json()) == graph
    assert graph.nodes[1].args == ((NodeRef(node=0), InputRef(input=0)), -1)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("nodes", 0, "args", 0), {"kind": "node", "node": 0}, "does not exist before it"),
        (("nodes", 0, "args", 1), [[{"kind": "node", "node": 1}]], "does not exist before it"),
        (("nodes", 0, "kwargs"), {"other": {"kind": "node", "node": 1}}, "does not exist before it"),
        (("outputs", 0, "node"), 2, "a node that does not exist"),
        (("outputs", 0, "node"), -1, "greater than or equal"),
        (("output_shapes",), [], "one shape and one dtype"),
        (("output_dtypes",), ["float32", "float32"], "one shape and one dtype"),
        (("output_shapes", 0, 0), -1, "greater than or equal"),
        (("outputs",), [], "at least 1"),
        (("nodes", 0, "op"), "os.system", "pattern"),
        (("nodes", 0, "op"), "aten.mul.Tensor\n", "pattern"),
        (("nodes", 0, "args"), [{"kind": "tensor"}], "validation error"),
        (("nodes", 0, "args"), [{"kind": "dtype", "dtype": "object"}], "validation error"),
        (("nodes",), [GRAPH["nodes"][0]] * 8193, "at most 8192"),
    ],
)
def test_hostile_graphs_are_refused(path: tuple[str | int, ...], value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Graph.model_validate_json(json.dumps(changed(GRAPH, path, value)))


def test_nesting_without_end_is_a_validation_error() -> None:
    with pytest.raises(ValidationError, match="recursion"):
        Node.model_validate_json('{"op": "aten.mul.Tensor", "args": ' + "[" * 100_000 + "]" * 100_000 + "}")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.sampled_from(["tanh", "none", ""])
    | st.builds(InputRef, input=st.integers(0, 31))
    | st.builds(NodeRef, node=st.integers(0, 9), result=st.none() | st.integers(0, 3))
    | st.builds(DtypeRef, dtype=st.sampled_from(["float32", "bool"])),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=4).map(tuple))
def test_arguments_survive_json_with_their_types(args: tuple[Any, ...]) -> None:
    back = Node.model_validate_json(Node(op="aten.add.Tensor", args=args).model_dump_json()).args
    assert repr(back) == repr(args)


def test_infinities_stay_numbers() -> None:
    node = Node(op="aten.full_like.default", args=(math.inf, (-math.inf,)))
    assert Node.model_validate_json(node.model_dump_json()).args == (math.inf, (-math.inf,))
    assert node.plain()["args"] == ["Infinity", ["-Infinity"]], "what is kept as JSON has no number that JSON has not"
    assert Node.model_validate(node.plain()) == node
