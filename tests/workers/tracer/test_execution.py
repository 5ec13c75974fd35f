import time

import pytest

from tests.workers.tracer.jobs import ALLOCATE, LAUNCH, candidate, operator, shape, traced
from workers.protocol import Outcome, Policy, ShapeRole, Stage
from workers.protocol.job import BUSY
from workers.tracer.execution import SHARE, TimeBudget

TARGET_NAMES = ("sm_80", "sm_90", "sm_100", "gfx942")


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_a_candidate_becomes_plans_for_every_target(target):
    reply = traced(candidate(), target=target)
    assert reply.outcome is Outcome.CORRECT, reply.reason
    (variant,) = reply.variants
    (plan,) = variant.plans
    assert [step.op for step in plan.steps] == ["allocate", "launch"]
    assert [(buffer.bytes, buffer.input) for buffer in plan.buffers] == [(32768, 0), (512, 1), (32768, None)]
    assert plan.outputs[0].buffer == 2
    assert {kernel.target for kernel in reply.kernels.values()} == {target}
    assert set(reply.kernels) == {plan.launches[0].kernel}


def test_plans_come_in_the_job_s_order_though_another_shape_is_traced_first():
    shapes = tuple(shape(M=rows, N=columns) for rows, columns in ((64, 128), (1, 1), (8, 16)))
    reply = traced(candidate(), shapes=shapes)
    assert [plan.shape for plan in reply.variants[0].plans] == list(shapes)


def test_the_cheapest_benchmark_shape_decides_where_several_fail():
    body = ALLOCATE + "CALLS.append(x)\nassert len(CALLS) < 2, f'{x.shape[0]} rows'\n" + LAUNCH
    source = candidate(body).replace("@triton.jit", "CALLS = []\n\n\n@triton.jit", 1)
    shapes = (shape(M=64, N=128), shape(ShapeRole.BOUNDARY, M=1, N=1), shape(M=8, N=16))
    reply = traced(source, shapes=shapes)
    assert reply.reason == "AssertionError: 8 rows", "the first call only looks for configurations"


def test_the_shape_is_named_where_the_timed_ones_do_not_fail():
    body = ALLOCATE + "assert x.shape[1] % 16 == 0, 'rows of 16'\n" + LAUNCH
    reply = traced(candidate(body), shapes=(shape(M=8, N=16), shape(ShapeRole.BOUNDARY, M=2, N=3)))
    reason = reply.variants[0].reason
    assert reason.startswith("AssertionError: rows of 16 (at M=2,N=3, which the operator's ranges allow; ")
    assert "`[ranges]`" in reason and "`--vary`" in reason


def test_an_assertion_that_says_nothing_is_quoted():
    reply = traced(candidate("assert x.shape[0] > 999\n" + ALLOCATE + LAUNCH))
    assert reply.reason.startswith("AssertionError in `assert x.shape[0] > 999`")


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        ("y, None", Outcome.CORRECT),
        ("None, y, None", Outcome.CORRECT),
        ("None", Outcome.WRONG_OUTPUT_TYPE),
        ("None, None", Outcome.WRONG_OUTPUT_TYPE),
        ("y, y, None", Outcome.WRONG_OUTPUT_TYPE),
    ],
)
def test_a_none_beside_the_results_is_what_was_not_computed(returned, outcome):
    launch = LAUNCH.replace("return y", f"return {returned}")
    assert launch != LAUNCH
    assert traced(candidate(ALLOCATE + launch)).outcome is outcome


COMPILED = "@torch.compile(fullgraph=True)\ndef softcapped(x, cap):\n    return torch.tanh(x / cap) * cap\n\n\n"


@pytest.mark.parametrize(
    ("cap", "outcome"), [(None, Outcome.CORRECT), (30.0, Outcome.FORBIDDEN_OP)], ids=["not called", "called"]
)
def test_a_compiled_helper_counts_where_it_is_called(cap, outcome):
    body = f"cap = {cap}\n" + ALLOCATE + LAUNCH.replace("return y", "return y if cap is None else softcapped(y, cap)")
    reply = traced(candidate(body).replace("def scale(x", COMPILED + "def scale(x"))
    assert reply.outcome is outcome
    assert outcome is Outcome.CORRECT or "computes with torch" in reply.reason


def test_a_compiled_function_may_launch_kernels():
    source = candidate().replace("def scale(x", "@torch.compile\ndef scale(x")
    assert traced(source).outcome is Outcome.CORRECT


def test_scalars_follow_the_inputs():
    of = operator(
        scalars=[{"name": "factor", "dtype": "float", "value": 2.5}, {"name": "fast", "dtype": "bool", "value": True}]
    )
    body = "assert factor == 2.5 and fast is True\n" + ALLOCATE + LAUNCH
    assert traced(candidate(body, "x, w, factor, fast"), of).outcome is Outcome.CORRECT


def test_gradients_are_off_and_autograd_functions_run():
    body = "assert not torch.is_grad_enabled()\nreturn Scale.apply(x, w)\n"
    forward = (
        "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w):\n"
        "        y = torch.empty_like(x)\n"
        "        scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=128)\n"
        "        ctx.save_for_backward(x, w)\n        return y\n\n\n"
    )
    reply = traced(candidate(body).replace("def scale(x", forward + "def scale(x"))
    assert (reply.outcome, len(reply.kernels)) == (Outcome.CORRECT, 1)


def test_target_properties_can_size_a_persistent_grid():
    body = (
        "programs = min(x.shape[0], torch.cuda.get_device_properties(x.device).multi_processor_count)\n"
        "same = triton.runtime.driver.active.utils.get_device_properties(x.device.index)['multiprocessor_count']\n"
        "assert same == 132\n" + ALLOCATE + LAUNCH.replace("(x.shape[0],)", "(programs,)")
    )
    assert traced(candidate(body), operator(shapes=[{"dims": {"M": 4096, "N": 128}}])).variants[0].plans[0].launches[
        0
    ].grid == (132, 1, 1)


def test_several_outputs_in_a_tuple():
    of = operator(outputs=[{"name": "y", "dtype": "float32"}, {"name": "z", "dtype": "float32"}])
    body = ALLOCATE + "z = torch.zeros_like(y)\n" + LAUNCH.replace("return y", "return y, z")
    assert [view.buffer for view in traced(candidate(body), of).variants[0].plans[0].outputs] == [2, 3]


def test_an_output_may_be_a_view():
    body = "y = torch.empty((x.shape[0] + 1, x.shape[1]), device=x.device)[1:]\n" + LAUNCH
    assert traced(candidate(body)).variants[0].plans[0].outputs[0].offset_bytes == 512


def test_a_mutable_input_may_be_returned():
    inputs = [
        {"name": "x", "shape": ["M", "N"], "dtype": "float32", "mutable": True},
        {"name": "w", "shape": ["N"], "dtype": "float32"},
    ]
    body = LAUNCH.replace("w, y, x", "w, x, x").replace("return y", "return x")
    assert traced(candidate(body), operator(inputs=inputs)).variants[0].plans[0].outputs[0].buffer == 0


IN_PLACE = {
    "inputs": [
        {"name": "x", "shape": ["M", "N"], "dtype": "float32", "mutable": True},
        {"name": "w", "shape": ["N"], "dtype": "float32"},
    ],
    "outputs": [{"name": "x", "dtype": "float32"}],
}
OVERWRITE = LAUNCH.replace("w, y, x", "w, x, x")


@pytest.mark.parametrize("returned", ["return x", "return None", "return (x,)", "return ()"])
def test_the_content_of_an_input_need_not_be_returned(returned):
    (variant,) = traced(candidate(OVERWRITE.replace("return y", returned)), operator(**IN_PLACE)).variants
    assert [view.buffer for view in variant.plans[0].outputs] == [0]
    assert variant.plans[0].overwritten == {0}


def test_other_outputs_are_returned_in_their_order():
    both = {**IN_PLACE, "outputs": [{"name": "x", "dtype": "float32"}, {"name": "y", "dtype": "float32"}]}
    for returned in ("return y", "return x, y"):
        body = ALLOCATE + OVERWRITE.replace("return y", returned)
        assert [view.buffer for view in traced(candidate(body), operator(**both)).variants[0].plans[0].outputs] == [
            0,
            2,
        ]
    assert traced(candidate(ALLOCATE + OVERWRITE), operator(**IN_PLACE)).outcome is Outcome.CORRECT  # claims refuse it
    reply = traced(candidate(ALLOCATE + OVERWRITE.replace("return y", "return x, y, y")), operator(**both))
    assert reply.outcome is Outcome.WRONG_OUTPUT_TYPE


def test_copies_are_steps_where_the_policy_allows_them():
    of = operator(policy=Policy(host="copy").model_dump())
    body = "x = x.t().contiguous().t()\n" + ALLOCATE + LAUNCH
    assert [step.op for step in traced(candidate(body), of).variants[0].plans[0].steps] == [
        "allocate",
        "copy",
        "allocate",
        "launch",
    ]


WRONG = {
    "no entry": ("def rescale(x, w):\n    return x\n", Outcome.SYNTAX_ERROR, Stage.PARSE),
    "entry is no function": ("scale = 3\n", Outcome.SYNTAX_ERROR, Stage.PARSE),
    "another signature": (candidate(signature="x"), Outcome.TRACE_CRASHED, Stage.TRACE),
    "an input": (candidate(ALLOCATE + LAUNCH.replace("return y", "return x")), Outcome.PLAN_REJECTED, Stage.TRACE),
    "nothing launched": (candidate(ALLOCATE + "return y\n"), Outcome.PLAN_REJECTED, Stage.TRACE),
}
WRONG_TYPES = {
    "another dtype": "return torch.empty_like(x, dtype=torch.float16)",
    "two results": "return y, y",
    "no result": "",
    "a number": "return 1.0",
    "a host tensor": "return torch.empty(x.shape)",
}


@pytest.mark.parametrize(("source", "outcome", "stage"), WRONG.values(), ids=WRONG)
def test_what_the_entry_does_wrong_is_told(source, outcome, stage):
    reply = traced(source)
    assert (reply.outcome, reply.stage) == (outcome, stage)
    assert all(variant.plans == () for variant in reply.variants)
    assert reply.reason


@pytest.mark.parametrize("returned", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_results_of_another_type_are_told(returned):
    reply = traced(candidate(ALLOCATE + LAUNCH.replace("return y", returned)))
    assert (reply.outcome, reply.stage, reply.line) == (Outcome.WRONG_OUTPUT_TYPE, Stage.TRACE, 16)


def test_what_is_left_is_enough_for_less():
    allowance = TimeBudget(100.0)
    assert allowance.suffices(SHARE * 100.0 - 5.0) and not allowance.suffices(SHARE * 100.0)


def test_work_is_counted_by_the_processor():
    allowance, began = TimeBudget(100.0), time.process_time()
    while time.process_time() - began < 0.05:
        pass
    assert 0.05 <= allowance.spent_s < 10.0


def test_waiting_is_counted_by_the_clock_and_less():
    allowance, began = TimeBudget(100.0), time.perf_counter()
    time.sleep(0.2)
    assert 0.2 / BUSY <= allowance.spent_s <= time.perf_counter() - began
