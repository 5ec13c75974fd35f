"""One candidate judged through real benches: right, wrong, untraceable, autotuned; and an operator that cannot be."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from service.errors import InvalidInput
from service.evaluation.single import Judge
from service.operators.specs import parse_operator
from tests.journeys.small import small_request
from tests.service import records
from workers.protocol import Device, Outcome, Provenance, Ratio, Trust

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[3]
DEVICE = Device.parse("model:sm_90")
SOFTMAX = parse_operator(small_request())
SEED = SOFTMAX.seeds[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge() -> AsyncIterator[Judge]:
    async with Judge(SOFTMAX, DEVICE) as judge:
        yield judge


async def test_the_seed_is_correct_and_as_fast_as_itself(judge: Judge) -> None:
    judgement = await judge.judge(SEED)
    assert judgement.outcome is Outcome.CORRECT, judgement.reason
    assert judgement.best is not None and judgement.best.speedup is not None
    assert judgement.best.speedup.low == pytest.approx(1.0)
    assert {"num_warps", "registers"} <= judgement.best.coordinates.keys()
    assert {"trace", "compile", "assemble", "interpret", "check"} <= judgement.stages_s.keys()


async def test_a_wrong_kernel_is_wrong(judge: Judge) -> None:
    judgement = await judge.judge(SEED.replace("tl.exp(", "tl.exp2("))
    assert judgement.outcome is Outcome.WRONG_RESULT and judgement.reason
    assert judgement.best is None


async def test_what_does_not_compile_says_where(judge: Judge) -> None:
    broken = SEED.replace("tl.exp(", "tl.no_such_function(")
    judgement = await judge.judge(broken)
    assert judgement.outcome is Outcome.COMPILE_ERROR
    assert judgement.line is not None and "no_such_function" in broken.splitlines()[judgement.line - 1]


async def test_every_configuration_gets_a_verdict_of_its_own(judge: Judge) -> None:
    configurations = "[triton.Config({}, num_warps=w) for w in (4, 16)]"
    tuned = SEED.replace("@triton.jit", f"@triton.autotune({configurations}, key=[])\n@triton.jit", 1)
    tuned = tuned.replace(", num_warps=8", "")
    judgement = await judge.judge(tuned)
    assert [item.outcome for item in judgement.variants] == [Outcome.CORRECT] * 2, judgement.reason
    assert len({item.plan for item in judgement.variants}) == 2


async def test_on_a_card_the_seed_is_judged_first_and_paces_the_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    notes, device = tmp_path / "notes", Device.parse("h200")
    command = (sys.executable, str(ROOT / "tests/service/stand_in_bench.py"), str(notes))
    async with Judge(records.OPERATOR, device, card=3, data=tmp_path, command=command) as judge:
        judgements = [await judge.judge(records.SEED + "\nMORE = 1\n" * times) for times in (1, 2)]
    best = judgements[0].best
    assert best is not None and best.speedup == Ratio(low=1.96, mid=2.0, high=2.04)
    assert best.report is not None and (best.report.trust, best.report.provenance) == (Trust.B, Provenance.MEASURED)
    told = notes.read_text().splitlines()
    assert any(f"measure --device h200 --card cuda:3 --data {tmp_path}" in line for line in told)
    seed = records.bundle_from(records.SEED)
    first, *others = (line for line in told if "beside" in line)
    assert first == f"{seed.identity} beside None within 900"
    assert len(others) == 2 and all(f"beside {seed.reduced().identity} within 900" in line for line in others)


async def test_an_operator_that_anything_passes_for_is_refused() -> None:
    nothing = SOFTMAX.model_copy(update={"reference": "def softmax(x):\n    return x * 0\n"})
    async with Judge(nothing, DEVICE) as judge:
        with pytest.raises(InvalidInput, match=r"not admitted: .*zeros"):
            await judge.judge(SEED)
    async with Judge(nothing.model_copy(update={"seeds": ()}), DEVICE, admit=True) as judge:
        judgement = await judge.judge(SEED)
    assert judgement.outcome is Outcome.WRONG_RESULT and "zeros" in judgement.admitted


async def test_a_refused_seed_is_a_verdict_on_the_seed_alone() -> None:
    wrong = SEED.replace("tl.exp(", "tl.exp2(")
    async with Judge(SOFTMAX.model_copy(update={"seeds": (wrong,)}), DEVICE) as judge:
        alone, refused = await judge.judge(SEED), await judge.judge(wrong)
    assert alone.outcome is Outcome.CORRECT and alone.best is not None and alone.best.speedup is None
    assert "no seed kernel is correct" in alone.unpaced and "wrong_result" in alone.unpaced
    assert refused.outcome is Outcome.WRONG_RESULT
    async with Judge(SOFTMAX.model_copy(update={"seeds": (wrong, SEED)}), DEVICE) as judge:
        second = await judge.judge(SEED)
    assert second.unpaced == "" and second.best is not None and second.best.speedup is not None


ADD_IN_PLACE = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(y_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, y + 2.0 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
    tl.store(y_ptr + i, LEFT, mask=i < n)


def add(y, x):
    out = OUT
    kernel[(triton.cdiv(x.numel(), 256),)](y, x, out, x.numel(), BLOCK=256)
    return out
"""
"""A kernel that adds into `OUT`, and leaves `LEFT` in its first input."""


ADDED = {"y": "y.add_(x, alpha=2.0)", "z": "return y + 2.0 * x"}
"""Bodies of the reference, by the output's name."""


@pytest.mark.parametrize("name", ADDED)
async def test_the_content_of_a_mutable_input_is_judged(name: str) -> None:
    """As the output of its name it is the result; otherwise it must stay, unless a result lies there."""
    stays = ADD_IN_PLACE.replace("    tl.store(y_ptr + i, LEFT, mask=i < n)\n", "")
    right, apart = stays.replace("OUT", "y"), stays.replace("OUT", "torch.empty_like(x)")
    small = {"shape": ["N"], "dtype": "bfloat16"}
    adding = parse_operator(
        {
            "name": "add",
            "entry": "add",
            "reference": f"def add(y, x):\n    {ADDED[name]}\n",
            "seeds": [right],
            "inputs": [{"name": "y", "mutable": True, **small}, {"name": "x", **small}],
            "outputs": [{"name": name, "dtype": "bfloat16"}],
            "shapes": [{"N": 300}],
            "ranges": {"N": [200, 300]},
        }
    )
    left = Outcome.INPUT_MUTATED if name == "z" else Outcome.PLAN_REJECTED
    wanted = {
        right: Outcome.CORRECT,
        right.replace("2.0", "2.5"): Outcome.WRONG_RESULT,
        apart: Outcome.CORRECT if name == "z" else Outcome.PLAN_REJECTED,
        ADD_IN_PLACE.replace("OUT", "torch.empty_like(x)").replace("LEFT", "y * 0.0 - 7.0"): left,
        ADD_IN_PLACE.replace("OUT", "y").replace("LEFT", "y * 0.0 - 7.0"): Outcome.WRONG_RESULT,
    }
    async with Judge(adding, DEVICE) as judge:
        found = {source: await judge.judge(source) for source in wanted}
    assert {source: judgement.outcome for source, judgement in found.items()} == wanted
