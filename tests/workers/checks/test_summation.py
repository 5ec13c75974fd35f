"""Sums are repeated one term after another, and bounds allow what that loses, but no more."""

import pytest
import torch

from service.operators.catalogue import load_catalogue
from tests.workers.checks.cases import gather, graph_of, operator
from tests.workers.tracer import jobs
from workers.checks import CHECKS
from workers.checks.summation import sequential_results
from workers.protocol import Outcome, Shape

CHECK = CHECKS["error_ratio"]
LOSS = load_catalogue()["cross_entropy"]
SIZES = {"M": 8192, "V": 2}


def losses(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    wide = logits.float()
    shifted = wide - wide.amax(dim=-1, keepdim=True)
    return torch.log(torch.exp(shifted).sum(dim=-1)) - shifted.gather(1, target.unsqueeze(1)).squeeze(1)


def one_by_one(values: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    total = torch.zeros((), dtype=dtype)
    for value in values.to(dtype):
        total += value
    return total.float()


def added(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """As atomics add: each loss over the number of rows, in an order of chance."""
    found = losses(logits, target)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(3))
    return one_by_one(found[order] / len(found))


@pytest.mark.parametrize("sizes", [SIZES, {"M": 5000, "V": 2}, {"M": 8192, "V": 3}])
@pytest.mark.parametrize("draw", ["shifted", "heavy", "normal"])
def test_losses_may_be_added_one_after_another(draw: str, sizes: dict[str, int]) -> None:
    assert CHECK.examine(gather(LOSS, draw, 1, added, **sizes)).outcome is None
    last = gather(LOSS, draw, 1, lambda *given: one_by_one(losses(*given)) / sizes["M"], **sizes)
    assert CHECK.examine(last).outcome is None


WRONG = {
    "narrow sums": lambda *given: one_by_one(losses(*given) / len(given[0]), torch.bfloat16),
    "half sums": lambda *given: one_by_one(losses(*given) / len(given[0]), torch.float16),
    "a row left out": lambda *given: losses(*given)[1:].sum() / len(given[0]),
    "another divisor": lambda *given: losses(*given).sum() / (len(given[0]) + 1),
    "a constant": lambda *given: torch.tensor(0.9),
    "narrow losses": lambda *given: losses(*given).bfloat16().float().mean(),
}


@pytest.mark.parametrize("kernel", WRONG.values(), ids=WRONG.keys())
def test_other_errors_of_a_mean_are_refused(kernel) -> None:
    found = [CHECK.examine(gather(LOSS, draw, 1, kernel, **SIZES)).outcome for draw in ("normal", "shifted")]
    assert set(found) & {Outcome.PRECISION, Outcome.WRONG_RESULT}, found


def test_a_mean_that_is_guessed_from_targets_is_refused() -> None:
    def guessed(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        some = losses(logits[::2], target[::2]) + logits[::2].float().gather(1, target[::2, None]).squeeze(1)
        return some.mean() - logits.float().gather(1, target[:, None]).mean()

    finding = CHECK.examine(gather(LOSS, "normal", 1, guessed, M=512, V=2048))
    assert finding.outcome in (Outcome.PRECISION, Outcome.WRONG_RESULT)


def test_each_axis_is_added_in_its_own_order() -> None:
    op = operator("rmsnorm", "float32")
    graph = graph_of(op, Shape(dims={"M": 4, "N": 4096}))
    inputs = [torch.full((4, 4096), 0.1), torch.ones(4096)]
    exact = inputs[0][0].double().square().mean()
    lost = [
        (result[0, 0] - inputs[0][0, 0].double() * torch.rsqrt(exact + 1e-6)).abs()
        for (result,) in found(graph, inputs)
    ]
    assert len(lost) == 2 and all(1e-6 < each < 1e-3 for each in lost)


def found(graph, inputs):
    return sequential_results(graph, inputs, torch.float32)


def test_a_reference_without_sums_is_not_evaluated_again() -> None:
    op = operator("gelu")
    assert found(graph_of(op, Shape(dims={"M": 2, "N": 3})), [torch.ones(2, 3)]) == []


def test_a_sum_of_a_norm_adds_the_normalised_values_and_not_its_statistics() -> None:
    code = "def scale(x, w):\n    return torch.nn.functional.group_norm(x, 2).mean((1, 2, 3))\n"
    inputs = [
        {"name": "x", "shape": ["M", 4, 4, 6], "dtype": "float32"},
        {"name": "w", "shape": [4], "dtype": "float32"},
    ]
    of = jobs.operator(reference=f"import torch\n\n\n{code}", inputs=inputs, shapes=[{"dims": {"M": 2}}])
    x = torch.randn(2, 4, 4, 6, generator=torch.Generator().manual_seed(0)) + 3
    for (found,) in sequential_results(graph_of(of, Shape(dims={"M": 2})), [x, torch.ones(4)], torch.float32):
        rows = torch.nn.functional.group_norm(x.double(), 2).flatten(1)
        right = torch.stack([one_by_one(row) / len(row) for row in rows])
        assert found.shape == (2,) and (found - right).abs().max() < 1e-6
