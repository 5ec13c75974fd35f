"""Operators of the catalogue with their references as graphs."""

import json
from functools import cache

import torch

from service.operators.catalogue import load_catalogue
from workers.inputs import draw
from workers.protocol import Graph, Operator, Shape, TraceJob
from workers.tracer.reference import export

OPERATORS = load_catalogue()
SIZES = {"M": 5, "N": 24, "K": 40, "V": 33, "B": 2, "H": 3, "T": 7, "D": 16}
SIZES |= {"C": 4, "W": 9, "G": 3, "P": 6, "Q": 8, "S": 10, "R": 4, "E": 4, "I": 12, "W1": 4, "W2": 3}
SIZES |= {"J": 6, "L": 3, "window": 3}

PLAIN = {
    "depthwise_conv_large",
    "dora_compose",
    "entmax15",
    "gated_linear_attention",
    "lightning_attention",
    "moe_swiglu",
    "monarch_matmul",
    "rational_activation",
    "rational_activation_backward",
    "simplicial_attention",
    "ssd_chunk_scan",
}
"""Operators that no library is known to have a function for, or whose reference is that function."""


def small(operator: Operator) -> Shape:
    return Shape(dims={name: SIZES[name] for name in operator.dimensions})


def inputs(operator: Operator, seed: int = 5) -> tuple[torch.Tensor, ...]:
    return draw(operator, small(operator), "normal", seed)


def graph_of(operator: Operator, shape: Shape) -> Graph:
    job = TraceJob(id="job", search="search", operator=operator, shapes=(shape,), target="sm_90")
    (graph,) = json.loads(export(job.model_dump_json().encode()))["graphs"]
    return Graph.model_validate(graph)


@cache
def small_graph(name: str) -> Graph:
    return graph_of(OPERATORS[name], small(OPERATORS[name]))
