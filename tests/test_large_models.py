"""Operators with as many weights as models have: through every wire type, traced, at a bounded cost."""

import time

import pytest
from pydantic import ValidationError

from tests.traces import trace_once
from workers.protocol import Graph, InputRef, Node, NodeRef, Operator, Plan, Shape, TraceJob
from workers.protocol.operator import MAX_INPUTS
from workers.protocol.plan import MAX_BUFFERS, MAX_STEPS

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, w_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(w_ptr + tl.arange(0, BLOCK))
    tl.store(y_ptr + at, tl.load(x_ptr + at) * w)


def many(x, *weights):
    for w in weights:
        y = torch.empty_like(x)
        scale[(x.shape[0],)](x, w, y, BLOCK=16)
        x = y
    return x
"""


def many(count: int) -> Operator:
    """An operator that scales a matrix by `count` vectors, one after the other."""
    names = [f"w{index}" for index in range(count)]
    weights = [{"name": name, "shape": [16], "dtype": "float32", "constant": True} for name in names]
    body = "".join(f"    x = x * {name}\n" for name in names)
    return Operator.model_validate(
        {
            "name": "many",
            "entry": "many",
            "reference": f"import torch\n\n\ndef many(x, {', '.join(names)}):\n{body}    return x\n",
            "inputs": [{"name": "x", "shape": ["M", 16], "dtype": "float32"}, *weights],
            "outputs": [{"name": "y", "dtype": "float32"}],
            "shapes": [{"dims": {"M": 4}}],
        }
    )


def test_a_model_of_seven_hundred_weights_is_exported_and_traced() -> None:
    operator, shape = many(MAX_INPUTS - 1), Shape(dims={"M": 4})
    job = TraceJob(id="j", search="s", operator=operator, shapes=(shape,), target="sm_90", mutation_testing=False)
    (graph,) = trace_once(job).graphs
    assert [node.args[1] for node in graph.nodes][-1] == InputRef(input=MAX_INPUTS - 1)
    report = trace_once(job.model_copy(update={"candidate": "c", "source": KERNEL}))
    assert report.outcome == "correct", report.reason
    (plan,) = report.variants[0].bundle.plans
    assert len(plan.launches) == MAX_INPUTS - 1 and len(plan.buffers) == 2 * MAX_INPUTS - 1
    before = time.process_time()
    for value in (operator, graph, plan, report):
        assert type(value).model_validate_json(value.model_dump_json()) == value
    assert time.process_time() - before < 3.0, "half a second on a processor of 2024"


def test_one_weight_more_is_refused() -> None:
    with pytest.raises(ValidationError, match="at most 704"):
        many(MAX_INPUTS)


def test_the_largest_graph_and_plan_are_read_in_seconds() -> None:
    shape = Shape(dims={"M": 1})
    nodes = [Node(op="aten.relu.default", args=(NodeRef(node=i - 1) if i else InputRef(input=0),)) for i in range(8192)]
    last = (NodeRef(node=8191),)
    graph = Graph(shape=shape, nodes=tuple(nodes), outputs=last, output_shapes=((1,),), output_dtypes=("float32",))
    view = {"buffer": MAX_BUFFERS - 1, "shape": [1], "strides": [1], "dtype": "float32"}
    steps = [{"op": "allocate", "buffer": index} for index in range(1, MAX_BUFFERS)]
    buffers = [{"id": index, "bytes": 4, "input": None if index else 0} for index in range(MAX_BUFFERS)]
    body = {"shape": shape.model_dump(), "buffers": buffers, "steps": steps, "outputs": [view]}
    before = time.process_time()
    assert Graph.model_validate_json(graph.model_dump_json()) == graph
    plan = Plan.model_validate(body)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan and len(plan.steps) == MAX_STEPS - 1
    assert time.process_time() - before < 5.0
