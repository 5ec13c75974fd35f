"""Gradients of references, exported and evaluated, against autograd and against differences."""

import json

import pytest
import torch

from workers.protocol import Graph, Input, Operator, Outcome, Output, Shape, TraceJob
from workers.reference import evaluate
from workers.tracer.reference import export

X = Input(name="x", shape=("M", "N"), dtype="float32")
WEIGHT = Input(name="weight", shape=("N",), dtype="float32")
INDEX = Input(name="index", shape=("M",), dtype="int64", high="N")
Y = Output(name="y", dtype="float32", shape=("M", "N"))


def operator(body: str, *inputs: Input, outputs: tuple[Output, ...] = (Y,)) -> Operator:
    names = ", ".join(item.name for item in inputs)
    reference = f"import torch\n\n\ndef op({names}):\n    {body}\n"
    shapes = ({"dims": {"M": 3, "N": 5}},)
    return Operator(
        name="op", entry="op", reference=reference, inputs=inputs, outputs=outputs, shapes=shapes, backward=True
    )


def exported(op: Operator) -> dict:
    shapes = (Shape(dims={"M": 3, "N": 5}),)
    job = TraceJob(id="j", search="s", operator=op, shapes=shapes, target="sm_90")
    return json.loads(export(job.model_dump_json().encode()))


def results(op: Operator, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    reply = exported(op)
    assert "graphs" in reply, reply
    return evaluate(Graph.model_validate(reply["graphs"][0]), given, double=True)


def test_gradients_follow_the_outputs_in_the_order_of_the_inputs() -> None:
    op = operator("return x * weight", X, WEIGHT)
    assert [item.name for item in op.given] == ["x", "weight", "grad_y"]
    assert [item.name for item in op.results] == ["y", "grad_x", "grad_weight"]
    x, weight, grad = torch.randn(3, 5), torch.randn(5), torch.randn(3, 5)
    y, grad_x, grad_weight = results(op, x, weight, grad)
    torch.testing.assert_close(y, (x * weight).double())
    torch.testing.assert_close(grad_x, (grad * weight).double())
    torch.testing.assert_close(grad_weight, (grad.double() * x).sum(0))


@pytest.mark.parametrize(
    "body", ["return torch.softmax(x, -1)", "return torch.tanh(x) * x.exp()", "return x.cumsum(0)"]
)
def test_gradients_equal_differences(body: str) -> None:
    op = operator(body, X)
    x, grad, step = torch.randn(3, 5).double(), torch.randn(3, 5), 1e-6
    _, grad_x = results(op, x.float(), grad)
    function: dict = {}
    exec(op.reference, function)
    x = x.float().double()
    for place in ((0, 0), (2, 4)):
        moved = torch.zeros_like(x)
        moved[place] = step
        change = (function["op"](x + moved) - function["op"](x - moved)) / (2 * step)
        assert float(grad_x[place]) == pytest.approx(float((change * grad.double()).sum()), rel=1e-5, abs=1e-7)


def test_only_float_inputs_that_want_it_have_gradients() -> None:
    op = operator("return x + weight, index", X, WEIGHT.model_copy(update={"gradient": False}), INDEX,
                  outputs=(Y, Output(name="place", dtype="int64")))  # fmt: skip
    assert [item.name for item in op.results] == ["y", "place", "grad_x"]
    assert [item.name for item in op.upstream] == ["grad_y"]
    y, place, grad_x = results(op, torch.ones(3, 5), torch.ones(5), torch.tensor([1, 0, 2]), torch.full((3, 5), 2.0))
    assert y.eq(2).all() and place.tolist() == [1, 0, 2] and grad_x.eq(2).all()


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        ("return x * 2", (X, WEIGHT), "no output of the reference depends on 'weight'; set gradient = false"),
        ("return x.detach() * 1", (X,), "no float output of the reference depends on an input"),
        (
            "return x.sum(0)",
            (X,),
            "have shapes \\[\\(5,\\)\\], but the declared gradients grad_y have \\[\\(3, 5\\)\\]",
        ),
    ],
)
def test_what_has_no_gradient_is_refused(body: str, inputs: tuple[Input, ...], reason: str) -> None:
    reply = exported(operator(body, *inputs))
    assert reply["outcome"] == Outcome.FORBIDDEN_OP
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(reply["reason"])
