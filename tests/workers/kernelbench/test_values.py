"""Origins of values, and the draws that follow from them."""

import pytest
import torch

from workers.kernelbench.values import LEAST_SHARE, UNKNOWN, Undrawable, ValueOrigin, ValueOrigins, drawn


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
        ("-torch.rand(4) - 1", ValueOrigin("uniform", -2.0, -1.0)),
        ("torch.cat([torch.rand(4), torch.rand(4) * 50 + 1])", ValueOrigin("uniform", 0.0, 51.0)),
        ("torch.cat([torch.rand(4), torch.rand(4).log()])", UNKNOWN),
        ("(torch.rand(4) * 2 - 1).abs()", ValueOrigin("uniform", 0.0, 1.0)),
        ("(torch.rand(4) * 3 - 1).square()", ValueOrigin("uniform", 0.0, 4.0)),
        ("torch.rand(4).mul(100).exp()", UNKNOWN),
        ("torch.randn(4).clamp(-3, 3)", ValueOrigin("uniform", -3.0, 3.0)),
        ("torch.randn(4).clamp(min=0)", UNKNOWN),
        ("torch.rand(4).clamp(min=0.5)", ValueOrigin("uniform", 0.5, 1.0)),
        ("torch.randperm(9)", ValueOrigin("whole", 0.0, 8.0)),
        ("torch.arange(2, 7)", ValueOrigin("whole", 2.0, 6.0)),
        ("torch.linspace(6.0, 2.0, 5).expand(3, 5)", ValueOrigin("uniform", 2.0, 6.0)),
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


RAND, RANDN = ValueOrigin("uniform", 0.0, 1.0), ValueOrigin("normal", 0.0, 1.0)


@pytest.mark.parametrize(
    "origin, parameter, published, fields",
    [
        (RAND, False, False, {}),
        (RAND, False, True, {"distribution": "uniform", "low": 0.0, "high": 1.0}),
        (RANDN, False, False, {}),
        (RANDN, True, False, {"distribution": "normal"}),
        (RAND, True, False, {"distribution": "uniform", "low": 0.0, "high": 1.0}),
        (ValueOrigin("uniform", -2.0, 1.0), False, False, {"distribution": "uniform", "low": -2.0, "high": 1.0}),
        (ValueOrigin("constant", 1.0, 1.0), True, False, {"distribution": "uniform", "low": 0.5, "high": 1.5}),
        (ValueOrigin("normal", 0.0, 0.25), True, False, {"distribution": "uniform", "low": -0.5, "high": 0.5}),
        (UNKNOWN, False, False, {}),
        (UNKNOWN, True, False, {"distribution": "normal"}),
    ],
)
def test_floats(origin: ValueOrigin, parameter: bool, published: bool, fields: dict[str, object]) -> None:
    assert drawn("x", torch.float32, origin, parameter=parameter, published=published) == fields


def test_whole_numbers_need_a_range() -> None:
    whole = ValueOrigin("whole", 0.0, 9.0)
    assert drawn("t", torch.int64, whole, parameter=False, published=False) == {"low": 0.0, "high": 10.0}
    assert drawn("m", torch.bool, UNKNOWN, parameter=False, published=False) == {}
    with pytest.raises(Undrawable, match="'t' holds integers"):
        drawn("t", torch.int64, UNKNOWN, parameter=False, published=False)
