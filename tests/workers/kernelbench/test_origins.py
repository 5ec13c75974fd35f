"""Where a tensor's values come from is followed through what problems do to them."""

import pytest
import torch

from workers.kernelbench.origins import LEAST_SHARE, UNKNOWN, ValueOrigin, ValueOrigins


def made(expression: str) -> ValueOrigin:
    with ValueOrigins() as origins, torch.device("meta"):
        tensor = eval(expression, {"torch": torch, "nn": torch.nn})
    return origins.of(tensor)


@pytest.mark.parametrize(
    "expression, origin",
    [
        ("torch.rand(3, 4)", ValueOrigin("uniform", 0.0, 1.0)),
        ("torch.rand(3, 4) * 2 - 1", ValueOrigin("uniform", -1.0, 1.0)),
        ("1 - torch.rand(4) / 2", ValueOrigin("uniform", 0.5, 1.0)),
        ("torch.rand(4) * torch.rand(())", ValueOrigin("uniform", 0.0, 1.0)),
        ("(torch.rand(4, 4) + 1).triu()", ValueOrigin("uniform", 0.0, 2.0)),
        ("torch.randn(4) * 0.02 + 3", ValueOrigin("normal", 3.0, 0.02)),
        ("torch.randint(0, 10, (4,))", ValueOrigin("whole", 0.0, 9.0)),
        ("torch.randint(7, (4,))", ValueOrigin("whole", 0.0, 6.0)),
        ("torch.randint(0, 2, (4,)).float() * 2 - 1", ValueOrigin("whole", -1.0, 1.0)),
        ("torch.rand(4, 4).softmax(-1)", ValueOrigin("uniform", LEAST_SHARE, 1.0)),
        ("torch.full((4,), 2.5)", ValueOrigin("constant", 2.5, 2.5)),
        ("torch.zeros(4).add_(1)", ValueOrigin("constant", 1.0, 1.0)),
        ("torch.rand(4).view(2, 2).t()", ValueOrigin("uniform", 0.0, 1.0)),
        ("torch.rand(4).log()", UNKNOWN),
        ("torch.randn(4) * torch.randn(4)", UNKNOWN),
        ("torch.add(torch.rand(4), torch.rand(4), alpha=3)", UNKNOWN),
    ],
)
def test_bounds_are_followed_as_far_as_they_are_known(expression: str, origin: ValueOrigin) -> None:
    found = made(expression)
    assert found.kind == origin.kind
    assert (found.low, found.high) == pytest.approx((origin.low, origin.high))


def test_a_parameter_has_the_bounds_of_its_initialisation() -> None:
    origin = made("nn.Linear(64, 8).weight")
    assert origin.kind == "uniform" and (origin.low, origin.high) == pytest.approx((-0.125, 0.125))
    assert made("nn.BatchNorm2d(8).weight") == ValueOrigin("constant", 1.0, 1.0)
