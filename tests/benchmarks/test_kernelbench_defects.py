"""Defective problems are found by wrong answers that pass their published check; sound ones are not."""

import pytest

from benchmarks import kernelbench_defects
from benchmarks.kernelbench_defects import examine, fitted, in_a_process, is_defective, summary
from tests.workers.kernelbench.problems import LINEAR, forward

CENTRED = "x = x.max(1, keepdim=True).values; return x - x.mean(1, keepdim=True)"
WAYS = {
    "zeros": forward(CENTRED),
    "the input": forward("return torch.relu(x)"),
    "one number": forward("return x.sum(1, keepdim=True) * 0 + 3"),
    "one row": forward("return x.mean() + torch.zeros_like(x)"),
    "an old answer": forward("return torch.softmax(x * 0, 1)"),
    "other weights": forward("return x + self.inner(x) * 1e-7", init="self.inner = nn.Linear(64, 64)"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_check_that_proves_nothing_is_found(way: str) -> None:
    row = examine(WAYS[way])
    assert way in row["passes"]["float32"] and is_defective(row)


@pytest.mark.parametrize(
    "text", [LINEAR.replace(", shift):", ", shift=1.0):"), forward("return torch.tanh(x * 3 - 1)")]
)
def test_a_sound_problem_is_not(text: str) -> None:
    row = examine(text.replace("return [torch.rand(batch_size, in_features), 2.5]", "return [torch.rand(32, 48)]"))
    assert not is_defective(row) and row["passes"]["float32"] == []


@pytest.mark.parametrize(
    "line, said",
    [
        ("return torch.dropout(x, 0.5, True)", "random"),
        ("return torch.log(x - 1)", "not finite"),
        ("return x, x + 1", "several results"),
    ],
)
def test_a_check_that_no_kernel_passes_reliably_is_found(line: str, said: str) -> None:
    row = examine(forward(line))
    assert said in row["unreliable"] and is_defective(row)


def test_only_the_leading_extent_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelbench_defects, "MOST_ELEMENTS", 1000)
    text = (
        forward("return torch.softmax(x, 1)", inputs="torch.rand(rows, columns)") + "\nrows = 16 * 2; columns = 100\n"
    )
    changed, told = fitted(text)
    assert told["changed"] == {"rows": 8} and told["elements"] == 800 and "columns = 100" in changed


def test_a_problem_that_fails_has_a_row_with_the_reason() -> None:
    row = in_a_process(forward("raise ValueError('odd')"), 60.0)
    assert row["reason"].startswith("not examined: ValueError: odd") and not is_defective(row)
    row["problem"] = "level1/1.py"
    assert summary([row]) == {"level1": {"problems": 1, "not examined": 1}}
