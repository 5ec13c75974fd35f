"""Requests, replies and figures survive JSON, and bad figures do not."""

import pytest
from pydantic import ValidationError

from tests.workers.assembler.modules import kernel_of, module
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.baselines.messages import Baseline, BaselineFigure, BaselineReply, BaselineRequest
from workers.protocol import Graph, Node, NodeRef, Shape


def figure(over_pacer: float) -> BaselineFigure:
    return BaselineFigure(time_us=20 * over_pacer, time_half_width=0.01, over_pacer=over_pacer, half_width=0.004)


def baseline(**figures: float) -> Baseline:
    return Baseline(
        shape="M=4,N=8",
        pacer_us=20.0,
        pacer_half_width=0.01,
        figures={name: figure(over) for name, over in figures.items()},
        pairs=40,
        skipped={"liger": "absent"},
    )


def test_a_request_survives_json():
    kernel = kernel_of(module(""))
    graph = Graph(
        shape=Shape(dims={"M": 4, "N": 8}),
        nodes=(Node(op="aten.full.default", args=((4, 8), float("-inf"))),),
        outputs=(NodeRef(node=0),),
        output_shapes=((4, 8),),
        output_dtypes=("bfloat16",),
    )
    request = BaselineRequest(
        operator=RMSNORM,
        graphs=(graph,),
        pacer=bundle_of(kernel, rmsnorm_plan(kernel, {"M": 4, "N": 8})),
        machine_code={kernel.digest: "AAAA"},
    )
    assert BaselineRequest.model_validate_json(request.model_dump_json()) == request


def test_a_reply_survives_json():
    reply = BaselineReply(baselines=(baseline(eager=11.0, liger=0.9),), versions={"torch": "2.11"})
    assert BaselineReply.model_validate_json(reply.model_dump_json()) == reply


def test_the_best_is_the_fastest_and_the_pacer_is_none_of_them():
    assert baseline(eager=11.0, liger=1.2).best() == figure(1.2)
    assert baseline().best() is None
    assert baseline(eager=11.0, liger=1.2).baselines_us == {"eager": 220.0, "liger": 24.0}


@pytest.mark.parametrize("time_us", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_is_a_positive_number(time_us):
    with pytest.raises(ValidationError):
        BaselineFigure(time_us=time_us, time_half_width=0.01, over_pacer=1.0, half_width=0.01)
