import math
import re

import pytest
import torch

from tests.workers.tracer.jobs import shape
from workers.protocol import DTYPE_BYTES, Allocate, Copy, Fill, Outcome, Policy, View
from workers.tracer.recorder import PlanRecorder, is_address
from workers.tracer.refusal import TraceRefused


def record(work, policy="allocate", dtype=torch.float32):
    """The recorder after a piece of host code ran on one input of 8 x 16 elements, and what the code returned."""
    x = torch.empty(8, 16, dtype=dtype, device="meta")
    recorder = PlanRecorder(Policy(host=policy), [x])
    with torch.no_grad(), recorder:
        returned = work(x)
    return recorder, returned


def plan_of(work, **options):
    recorder, returned = record(work, **options)
    outputs = returned if isinstance(returned, list | tuple) else [returned]
    return recorder.plan(shape(M=8), [item for item in outputs if isinstance(item, torch.Tensor)])


def outcome_of(work, **options):
    with pytest.raises(TraceRefused) as refused:
        record(work, **options)
    return refused.value.outcome


def meta(**options):
    return {"device": "meta", **options}


ALLOCATIONS = {
    "empty_like": lambda x: torch.empty_like(x),
    "empty": lambda x: torch.empty(8, 16, **meta()),
    "new_empty": lambda x: x.new_empty((8, 16)),
    "empty_strided": lambda x: torch.empty_strided((8, 16), (16, 1), **meta()),
    "empty_permuted": lambda x: torch.empty_permuted((8, 16), (0, 1), **meta()),
}
FILLS = {
    "zeros_like": (lambda x: torch.zeros_like(x), 0),
    "zeros": (lambda x: torch.zeros(8, 16, **meta()), 0),
    "new_zeros": (lambda x: x.new_zeros((8, 16)), 0),
    "ones": (lambda x: torch.ones(8, 16, **meta()), 1),
    "ones_like": (lambda x: torch.ones_like(x), 1),
    "new_ones": (lambda x: x.new_ones((8, 16)), 1),
    "full": (lambda x: torch.full((8, 16), 2.5, **meta()), 2.5),
    "full_like": (lambda x: torch.full_like(x, 2.5), 2.5),
    "new_full": (lambda x: x.new_full((8, 16), 2.5), 2.5),
    "infinity": (lambda x: torch.full_like(x, float("-inf")), float("-inf")),
    "fill_": (lambda x: torch.empty_like(x).fill_(3), 3),
    "zero_": (lambda x: torch.empty_like(x).zero_(), 0),
    "fill_ by a number of the host": (lambda x: torch.empty_like(x).fill_(torch.tensor(4.0)), 4.0),
}
VIEWS = {
    "slice": (lambda x: x[2:6, 4:], (2 * 16 + 4) * 4, (4, 12), (16, 1)),
    "index": (lambda x: x[3], 3 * 16 * 4, (16,), (1,)),
    "transpose": (lambda x: x.t(), 0, (16, 8), (1, 16)),
    "permute": (lambda x: x.permute(1, 0), 0, (16, 8), (1, 16)),
    "expand": (lambda x: x[:, None].expand(8, 3, 16), 0, (8, 3, 16), (16, 0, 1)),
    "view": (lambda x: x.view(-1, 4), 0, (32, 4), (4, 1)),
    "reshape": (lambda x: x.reshape(128), 0, (128,), (1,)),
    "unsqueeze": (lambda x: x.unsqueeze(0), 0, (1, 8, 16), (128, 16, 1)),
    "chunk": (lambda x: x.chunk(2, -1)[1], 8 * 4, (8, 8), (16, 1)),
    "split": (lambda x: x.split(4, -1)[3], 12 * 4, (8, 4), (16, 1)),
    "unbind": (lambda x: x.unbind(0)[7], 7 * 16 * 4, (16,), (1,)),
    "contiguous": (lambda x: x.contiguous(), 0, (8, 16), (16, 1)),
    "detach": (lambda x: x.detach(), 0, (8, 16), (16, 1)),
    "as_strided": (lambda x: x.as_strided((4, 4), (1, 1)), 0, (4, 4), (1, 1)),
    "squeeze": (lambda x: x[:1].squeeze(0), 0, (16,), (1,)),
}


@pytest.mark.parametrize("work", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_allocations_are_steps(work):
    plan = plan_of(work)
    assert plan.steps == (Allocate(buffer=1),)
    assert [(buffer.bytes, buffer.input) for buffer in plan.buffers] == [(512, 0), (512, None)]
    assert plan.outputs == (View(buffer=1, shape=(8, 16), strides=(16, 1), dtype="float32"),)


@pytest.mark.parametrize(("work", "value"), FILLS.values(), ids=FILLS)
def test_fills_are_steps(work, value):
    whole = View(buffer=1, shape=(8, 16), strides=(16, 1), dtype="float32")
    assert plan_of(work).steps == (Allocate(buffer=1), Fill(target=whole, value=value))


@pytest.mark.parametrize(("work", "offset_bytes", "shape", "strides"), VIEWS.values(), ids=VIEWS)
def test_views_are_free(work, offset_bytes, shape, strides):
    plan = plan_of(work)
    assert plan.steps == ()
    assert plan.outputs == (View(buffer=0, offset_bytes=offset_bytes, shape=shape, strides=strides, dtype="float32"),)


NUMBERS = (
    *(0, 1, -1, 2, 127, 128, -128, -129, 255, -255, 256, -256, 65535, 65536, -65535, -65536, 70000, True, False),
    *(2**31 - 1, 2**31, -(2**31), 2**32 - 1, -(2**32) + 1, 2**32, 2**63 - 1, 2**63, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 0.1, 2.7, -0.5, -1.5, 300.5, 449.0, 460.0, 60000.0, 65504.0, 65519.0, 65520.0, -1e5),
    *(3.3895313892515355e38, 3.4e38, 3.4028234663852886e38, 3.4028235e38, 1e300, math.inf, -math.inf, math.nan),
)


def bits(tensor):
    return tensor.reshape(-1).view(torch.uint8).tolist()


@pytest.mark.parametrize("name", DTYPE_BYTES)
def test_fills_mean_what_torch_makes_of_them(name):
    dtype = getattr(torch, name)
    for value in NUMBERS:
        works = (lambda _, v=value: torch.full((3,), v, **meta(dtype=dtype)), lambda x, v=value: x.clone().fill_(v))
        try:
            expected = torch.full((3,), value, dtype=dtype)
        except RuntimeError as error:
            for work in works:
                with pytest.raises(RuntimeError, match=re.escape(str(error))):
                    plan_of(work, dtype=dtype, policy="copy")
            continue
        for work in works:
            fill = plan_of(work, dtype=dtype, policy="copy").steps[-1]
            assert bits(torch.empty(3, dtype=dtype).fill_(fill.value)) == bits(expected), (value, fill.value)


def test_a_fill_that_the_dtype_holds_is_kept_as_it_was_written():
    for value, dtype in ((0.1, torch.float16), (3, torch.float32), (2.7, torch.int32), (True, torch.int8)):
        written = plan_of(lambda x, v=value, d=dtype: torch.full((3,), v, **meta(dtype=d))).steps[1].value
        assert (type(written), written) == (type(value), value)


CASTS = [
    *((300, torch.int64, dtype) for dtype in (torch.uint8, torch.int8, torch.bool, torch.float16)),
    *((1e300, torch.float64, dtype) for dtype in (torch.bool, torch.float16, torch.float32)),
]


@pytest.mark.parametrize(("value", "given", "dtype"), CASTS)
def test_copies_of_a_number_cast_it(value, given, dtype):
    expected = torch.empty(3, dtype=dtype).copy_(torch.tensor(value, dtype=given))
    works = (
        lambda x: torch.empty(3, **meta(dtype=dtype)).copy_(torch.tensor(value, dtype=given)),
        lambda x: torch.empty(3, **meta(dtype=dtype)).copy_(torch.scalar_tensor(value, **meta(dtype=given))),
    )
    for work in works:
        assert bits(torch.empty(3, dtype=dtype).fill_(plan_of(work).steps[-1].value)) == bits(expected)


def test_setting_a_slice_to_a_number_is_one_fill():
    def work(x):
        y = torch.empty_like(x)
        y[:, 4:] = 1.5
        return y

    target = View(buffer=1, offset_bytes=16, shape=(8, 12), strides=(16, 1), dtype="float32")
    assert plan_of(work).steps == (Allocate(buffer=1), Fill(target=target, value=1.5))


def test_a_number_wrapped_as_a_tensor_becomes_memory_when_it_is_used():
    plan = plan_of(lambda x: torch.scalar_tensor(2.0, **meta()))
    assert [step.op for step in plan.steps] == ["allocate", "fill"]
    assert plan.buffers[1].bytes == 4


def test_views_in_other_dtypes():
    plan = plan_of(lambda x: x.view(torch.int8))
    assert plan.outputs == (View(buffer=0, shape=(8, 64), strides=(64, 1), dtype="int8"),)


def test_host_arithmetic_is_none_of_its_business():
    assert record(lambda _: (torch.arange(4) * 2).sum().item())[1] == 12


COPIES = {
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.t().contiguous(),
    "reshape": lambda x: x.t().reshape(-1),
    "to": lambda x: x.to(torch.bfloat16),
    "half": lambda x: x.half(),
    "copy_": lambda x: torch.empty_like(x).copy_(x),
    "set": lambda x: torch.empty_like(x).__setitem__(slice(0, 4), x[4:]),
}


@pytest.mark.parametrize("work", COPIES.values(), ids=COPIES)
def test_copies_need_a_policy_that_allows_them(work):
    assert outcome_of(work) is Outcome.FORBIDDEN_OP
    plan = plan_of(work, policy="copy")
    assert [step.op for step in plan.steps] == ["allocate", "copy"]


def test_a_copy_tells_both_sides():
    step = plan_of(lambda x: x.t().to(torch.float16, memory_format=torch.contiguous_format), policy="copy").steps[1]
    assert step == Copy(
        source=View(buffer=0, shape=(16, 8), strides=(1, 16), dtype="float32"),
        target=View(buffer=1, shape=(16, 8), strides=(8, 1), dtype="float16"),
    )


def test_a_copy_spreads_its_source():
    step = plan_of(lambda x: torch.empty_like(x).copy_(x[0]), policy="copy").steps[1]
    assert step.source == View(buffer=0, shape=(8, 16), strides=(0, 1), dtype="float32")


REFUSED = {
    "add": (lambda x: x + 1, Outcome.FORBIDDEN_OP),
    "matmul": (lambda x: x @ x.t(), Outcome.FORBIDDEN_OP),
    "sum": (lambda x: x.sum(), Outcome.FORBIDDEN_OP),
    "cat": (lambda x: torch.cat([x, x]), Outcome.FORBIDDEN_OP),
    "silu": (lambda x: torch.nn.functional.silu(x), Outcome.FORBIDDEN_OP),
    "arange": (lambda x: torch.arange(4, **meta()), Outcome.FORBIDDEN_OP),
    "rand": (lambda x: torch.rand(4, **meta()), Outcome.FORBIDDEN_OP),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(), Outcome.FORBIDDEN_OP),
    "resize_": (lambda x: x.resize_(3), Outcome.FORBIDDEN_OP),
    "mul_": (lambda x: x.mul_(2), Outcome.FORBIDDEN_OP),
    "index": (lambda x: x[torch.tensor([0, 1])], Outcome.FORBIDDEN_OP),
    "complex": (lambda x: torch.empty(4, dtype=torch.complex64, **meta()), Outcome.FORBIDDEN_OP),
    "host data": (lambda x: x.copy_(torch.ones(8, 16)), Outcome.FORBIDDEN_OP),
    "item": (lambda x: x[0, 0].item(), Outcome.HOST_READ),
    "equal": (lambda x: torch.equal(x, x), Outcome.HOST_READ),
    "nonzero": (lambda x: x.nonzero(), Outcome.HOST_READ),
    "to the host": (lambda x: x.to("cpu"), Outcome.HOST_READ),
    "fill from a tensor": (lambda x: torch.empty_like(x).fill_(x[0, 0]), Outcome.HOST_READ),
    "beyond the end": (lambda x: x.as_strided((129,), (1,)), Outcome.PLAN_REJECTED),
}


@pytest.mark.parametrize(("work", "outcome"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused(work, outcome):
    assert outcome_of(work) is outcome


KEPT = {
    "a dummy": lambda x: torch.zeros(1, device=x.device),
    "a workspace": lambda x: torch.empty(64, device=x.device),
    "filled twice": lambda x: torch.ones(64, device=x.device).fill_(3.0),
    "filled in part": lambda x: torch.full((64,), 2.0, device=x.device)[8:].zero_(),
}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_a_tensor_that_an_earlier_call_made_is_made_anew(make):
    x, made = torch.empty(8, 16, device="meta"), {}
    with PlanRecorder(Policy(), [x], made) as first:
        kept = make(x)
    second = PlanRecorder(Policy(), [x], made)
    assert second.pointer(kept) == first.pointer(kept) and second.is_kept(kept) and not first.is_kept(kept)
    assert second.plan(shape(M=8), [x]).steps == first.plan(shape(M=8), [x]).steps


def test_a_tensor_that_an_earlier_call_copied_to_is_refused():
    x, made = torch.empty(8, 16, device="meta"), {}
    with PlanRecorder(Policy(host="copy"), [x], made):
        kept = [x.clone(), torch.empty_like(x).copy_(x), torch.cat((x, x))]
    for tensor in (*kept, x):
        with pytest.raises(TraceRefused, match="not allocated in this call"):
            PlanRecorder(Policy(host="copy"), [torch.empty(1, device="meta")], made).pointer(tensor)


def test_complex_views_are_free():
    plan = plan_of(lambda x: torch.view_as_real(torch.view_as_complex(x.view(8, 8, 2))))
    assert plan.outputs[0] == View(buffer=0, offset_bytes=0, shape=(8, 8, 2), strides=(16, 2, 1), dtype="float32")


def test_memory_of_another_call_is_refused():
    recorder, _ = record(lambda x: x)
    with pytest.raises(TraceRefused) as refused:
        recorder.view(torch.empty(3, device="meta"))
    assert refused.value.outcome is Outcome.PLAN_REJECTED
    assert "in every call" in refused.value.reason


def test_addresses_are_apart_and_aligned():
    recorder, (x, y) = record(lambda x: (x, torch.empty_like(x)))
    first, second = recorder.address_of(x), recorder.address_of(y)
    assert first % 256 == second % 256 == 0
    assert abs(first - second) > 2**35
    with torch.no_grad(), recorder:
        assert recorder.address_of(x[1]) == first + 64
    assert is_address(second + 17)
    assert not is_address(2**40)


def test_inputs_are_told_apart_from_allocations():
    recorder, (x, y) = record(lambda x: (x.view(-1), torch.empty_like(x)))
    assert (recorder.input_of(x), recorder.input_of(y)) == (0, None)


def test_more_buffers_than_a_plan_holds_are_refused():
    assert outcome_of(lambda x: [torch.empty_like(x) for _ in range(4096)]) is Outcome.PLAN_REJECTED
