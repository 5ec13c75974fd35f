"""Sums are repeated one term after another, and bounds allow what that loses, but no more."""

import pytest
import torch

from service.operators.catalogue import load_catalogue
from tests.workers.checks.cases import gather, graph_of, operator
from tests.workers.tracer import jobs
from workers.checks import CHECKS
from workers.checks.summation import added_otherwise
from workers.inputs import DRAWS
from workers.protocol import Operator, Outcome, Shape

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


def of_text(text: str, sizes: tuple[int | str, ...]) -> Operator:
    inputs = [
        {"name": "x", "shape": list(sizes), "dtype": "float32"},
        {"name": "s", "shape": [], "dtype": "float32"},
    ]
    code = f"import torch\nfrom torch.nn.functional import *\n\n\ndef scale(x, s):\n    return {text}\n"
    return jobs.operator(reference=code, inputs=inputs, shapes=[{"dims": {"M": 8}}])


def centred(rows: torch.Tensor, *, by: torch.dtype = torch.float32) -> torch.Tensor:
    """A norm of rows, with the mean of a long sum from the other end, in a dtype."""
    apart = rows - rows.flip(-1).sum(-1, keepdim=True).to(by).float() / rows.shape[-1]
    return apart * torch.rsqrt(apart.square().mean(-1, keepdim=True) + 1e-5)


def grouped(values: torch.Tensor, groups: int, by: torch.dtype) -> torch.Tensor:
    return centred(values.reshape(len(values), groups, -1), by=by).reshape(values.shape)


NORMS = {
    "layer": ("avg_pool2d(layer_norm(x + s, (x.shape[-1],)), 2)", centred),
    "group": ("avg_pool2d(group_norm(x + s, 2), 2)", lambda y, by: grouped(y, 2, by)),
    "instance": ("avg_pool2d(instance_norm(x + s), 2)", lambda y, by: grouped(y, y.shape[1], by)),
    "spelled out": (
        "avg_pool2d((x + s - (x + s).mean(-1, keepdim=True)) * torch.rsqrt((x + s).var(-1, keepdim=True, "
        "correction=0) + 1e-5), 2)",
        centred,
    ),
}


@pytest.mark.parametrize("norm", NORMS)
def test_a_mean_that_is_subtracted_may_round_where_the_reference_s_was_exact_by_luck(norm: str) -> None:
    """Rows of nearly equal values have equal means, whose errors a pool does not average out."""
    text, normalised = NORMS[norm]
    of = of_text(text, ("M", 4, 6, 64))

    def outcomes(by: torch.dtype) -> set[Outcome | None]:
        def kernel(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.avg_pool2d(normalised(x + s, by=by), 2)

        return {CHECK.examine(gather(of, draw, seed, kernel, M=8)).outcome for draw in DRAWS for seed in range(12)}

    assert outcomes(torch.float32) == {None}
    assert Outcome.PRECISION in outcomes(torch.bfloat16)


def found(graph, inputs):
    return added_otherwise(graph, inputs, torch.float32)


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
    for (found,) in added_otherwise(graph_of(of, Shape(dims={"M": 2})), [x, torch.ones(4)], torch.float32):
        rows = torch.nn.functional.group_norm(x.double(), 2).flatten(1)
        right = torch.stack([one_by_one(row) / len(row) for row in rows])
        assert found.shape == (2,) and (found - right).abs().max() < 1e-6
