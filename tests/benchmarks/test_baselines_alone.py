"""Kernels of former searches, and a run that goes on where an earlier one ended."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from benchmarks import baselines_alone
from benchmarks.baselines_alone import ROWS, UNCACHED, chosen, known_kernels, run, traced, tuning
from benchmarks.record import RESULTS
from benchmarks.suites import SuiteEntry
from service.evaluation.executor_client import LocalExecutor
from tests.gpu.contracts import operators
from workers.protocol import Operator

TUNED = """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4)], key=[])
@triton.jit
def kernel(x_ptr, weight_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + cols, mask=cols < n, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < n, other=0.0)
    y = x * tl.rsqrt(tl.sum(x * x) / n + 1e-6) * weight
    tl.store(y_ptr + tl.program_id(0) * n + cols, y, mask=cols < n)


def rmsnorm(x, weight):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, weight, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""


def test_kernels_of_the_anchor_suite_are_known_by_row() -> None:
    kernels = known_kernels(RESULTS / "anchor.json")
    source, configuration = kernels[ROWS["attention"].key]
    assert "def attention" in source and isinstance(configuration, dict)
    assert known_kernels(None) == {}


def test_the_variant_of_the_configuration_is_chosen() -> None:
    entry = SuiteEntry("rmsnorm", {"M": 64, "N": 256})
    operator = Operator.model_validate({**entry.contract(), "baselines": ("native",)})

    async def trace() -> None:
        async with LocalExecutor("trace") as tracer:
            report = await traced(tracer, operator, TUNED, "sm_90")
        second = report.variants[1].bundle
        assert second is not None and chosen(report, second.configuration) is second
        assert chosen(report, {}) is report.variants[0].bundle

    asyncio.run(trace())


def test_rows_that_have_figures_are_kept_and_none_is_begun_without_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"row": ROWS["rmsnorm"].key, "figures": {"helion": {"us": 20.0}}, **tuning(["helion"])}
    (tmp_path / "found.json").write_text(json.dumps({"rows": [done, {"row": ROWS["softmax"].key, "reason": "killed"}]}))
    begun = []

    async def measured(entry: SuiteEntry, *_: object) -> dict[str, object]:
        begun.append(entry.operator)
        return {"row": entry.key, "figures": {"helion": {"us": 21.0}}}

    monkeypatch.setattr(baselines_alone, "measured", measured)
    told = {"device": "h200", "card": 0, "rows": ["rmsnorm", "softmax"], "baselines": ["helion"], "kernels": None}
    asked = argparse.Namespace(**told, row_s=5.0, limit_s=60.0, out=tmp_path, name="found")
    asyncio.run(run(asked))
    assert begun == ["softmax"]
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [row["row"] for row in rows] == [ROWS["rmsnorm"].key, ROWS["softmax"].key]
    asyncio.run(
        run(argparse.Namespace(**told | {"rows": ["layernorm"]}, row_s=90.0, limit_s=60.0, out=tmp_path, name="a"))
    )
    assert begun == ["softmax"] and "no time is left" in capsys.readouterr().out


def test_a_row_is_measured_once_for_each_effort_and_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    class Process:
        """A process of baselines that notes its variables."""

        def __init__(self, card: int, environment: object) -> None:
            given.append(environment)

        def close(self) -> None:
            """Do nothing."""

    async def measured(entry: SuiteEntry, *_: object) -> dict[str, object]:
        return {"row": entry.key, "figures": {"helion": {"us": 21.0}}}

    monkeypatch.setattr(baselines_alone, "measured", measured)
    monkeypatch.setattr(baselines_alone, "BaselineProcess", Process)
    told = {"device": "h200", "card": 0, "rows": ["softmax"], "baselines": ["native", "helion"], "kernels": None}
    asked = argparse.Namespace(**told, row_s=5.0, limit_s=60.0, out=tmp_path, name="found")
    for effort, seconds in (("quick", 60.0), ("full", 240.0), ("full", 240.0)):
        monkeypatch.setattr(baselines_alone, "EFFORT", effort)
        monkeypatch.setattr(baselines_alone, "TUNING_S", seconds)
        asyncio.run(run(asked))
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [row["helion"] for row in rows] == [
        {"effort": "quick", "budget_s": 60},
        {"effort": "full", "budget_s": 240},
    ]
    assert given == [UNCACHED] * 3, "a choice of an earlier run is no tuning"
    assert tuning(["native"]) == {}


def test_committed_rows_tell_effort_and_budget_of_helion() -> None:
    rows = [row for path in RESULTS.glob("helion*.json") for row in json.loads(path.read_text())["rows"]]
    assert rows
    for row in rows:
        assert row["helion"]["effort"] in ("quick", "full") and row["helion"]["budget_s"] > 0, row["row"]
        assert row["ready_s"]["helion"] > 0 and row["date"], row["row"]


def test_every_row_is_of_the_catalogue() -> None:
    assert {entry.operator for entry in ROWS.values()} <= operators().keys()
