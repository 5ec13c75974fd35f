import pytest
import torch

from tests.workers.tracer.jobs import shape
from workers.protocol import Outcome, Policy
from workers.tracer.recorder import PlanRecorder
from workers.tracer.refusal import TraceRefused
from workers.tracer.tensors import TargetTensors

CUDA = torch.device("cuda", 0)


def see(work, policy="allocate"):
    """What host code sees of one input of 8 x 16 elements on the target, and the steps it makes."""
    x = torch.empty(8, 16, device="meta")
    recorder = PlanRecorder(Policy(host=policy), [x])
    with torch.no_grad(), recorder, TargetTensors(recorder.address_of):
        seen = work(x)
    return seen, [step.op for step in recorder.plan(shape(M=8), []).steps]


FACTS = {
    "device": (lambda x: x.device, CUDA),
    "device of an allocation": (lambda x: torch.empty_like(x).device, CUDA),
    "device of a view": (lambda x: x[2:].t().device, CUDA),
    "kind of device": (lambda x: x.device.type, "cuda"),
    "is_cuda": (lambda x: x.is_cuda, True),
    "is_meta": (lambda x: x.is_meta, False),
    "get_device": (lambda x: x.get_device(), 0),
    "alignment": (lambda x: x.data_ptr() % 256, 0),
    "offset": (lambda x: x[1].data_ptr() - x.data_ptr(), 64),
    "shape": (lambda x: tuple(x.shape), (8, 16)),
    "stride": (lambda x: x.t().stride(), (1, 16)),
    "numel": (lambda x: x.numel(), 128),
    "dtype": (lambda x: x.dtype, torch.float32),
    "element_size": (lambda x: x.element_size(), 4),
    "is_contiguous": (lambda x: (x.is_contiguous(), x.t().is_contiguous()), (True, False)),
    "len": (lambda x: len(x), 8),
    "is a tensor": (lambda x: isinstance(x, torch.Tensor), True),
    "to its own device": (lambda x: x.to("cuda") is x, True),
    "cuda": (lambda x: x.cuda() is x, True),
    "storage": (lambda x: x.untyped_storage().nbytes(), 512),
    "host tensors are of the host": (lambda x: torch.empty(3).device.type, "cpu"),
    "requires_grad": (lambda x: x.requires_grad, False),
    "a named device": (lambda x: x.device == torch.device("cuda:0") == torch.device("cuda", 0), True),
    "a device by number": (lambda x: torch.device(0), CUDA),
    "the host's device": (lambda x: torch.device("cpu").type, "cpu"),
}
FACTORIES = {
    "by name": lambda x: torch.empty(4, device="cuda"),
    "by name and index": lambda x: torch.empty(4, device="cuda:0"),
    "by number": lambda x: torch.empty(4, device=0),
    "by the input's device": lambda x: torch.empty((4,), device=x.device, dtype=x.dtype),
    "by torch.device": lambda x: torch.empty(4, device=torch.device("cuda")),
    "by a default": lambda x: _with_default(),
}


def _with_default():
    with torch.device("cuda"):
        return torch.empty(4)


@pytest.mark.parametrize(("work", "fact"), FACTS.values(), ids=FACTS)
def test_tensors_answer_for_the_target(work, fact):
    assert see(work)[0] == fact


@pytest.mark.parametrize("work", FACTORIES.values(), ids=FACTORIES)
def test_allocations_on_the_target(work):
    assert see(work)[1] == ["allocate"]


def test_a_number_put_on_the_target_is_a_fill():
    assert see(lambda x: torch.empty_like(x).copy_(torch.tensor(2.0, device="cuda")))[1] == ["allocate", "fill"]


def test_a_list_of_one_number_or_of_none_is_no_data_either():
    seen, steps = see(lambda x: torch.empty_like(x).copy_(torch.tensor([7], dtype=torch.int32, device="cuda")))
    assert (tuple(seen.shape), steps) == ((8, 16), ["allocate", "fill"])
    seen, steps = see(lambda x: torch.tensor([], dtype=torch.bfloat16, device=x.device))
    assert (seen.numel(), seen.dtype) == (0, torch.bfloat16)
    seen, _ = see(lambda x: torch.tensor((True,), device="cuda:0"))
    assert (tuple(seen.shape), seen.dtype) == ((1,), torch.bool)


def test_a_device_may_be_the_one_that_is_meant_where_none_is_said():
    def work(x):
        with torch.device("cuda"):
            return torch.empty(3).is_cuda

    assert see(work) == (True, ["allocate"])


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        y = torch.empty_like(x)
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return y

    @staticmethod
    def backward(ctx, dy):
        raise AssertionError("only the forward is called")


def test_autograd_functions_run_their_forward():
    seen, steps = see(lambda x: Scale.apply(x, 2.0).device)
    assert (seen, steps) == (CUDA, ["allocate"])


READS = {
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "cpu": lambda x: x.cpu(),
    "if": lambda x: 1 if x[0, 0] else 0,
    "int": lambda x: int(x[0, 0]),
    "float": lambda x: float(x[0, 0]),
    "range": lambda x: range(x[0, 0]),
    "in": lambda x: 1 in x,
    "repr": lambda x: repr(x),
    "format": lambda x: f"{x}",
    "str": lambda x: str(x),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "unique": lambda x: torch.unique(x),
    "to the host": lambda x: x.to("cpu"),
}
UPLOADS = {
    "tensor": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "as_tensor": lambda x: torch.as_tensor([1.0, 2.0], device="cuda"),
    "to": lambda x: torch.ones(4).to("cuda"),
    "to another's device": lambda x: torch.ones(4).to(x.device),
    "cuda": lambda x: torch.ones(4).cuda(),
    "copy_": lambda x: x.copy_(torch.ones(8, 16)),
    "data": lambda x: setattr(x, "data", torch.empty_like(x)),
    "another device": lambda x: torch.empty(4, device="cuda:1"),
}


@pytest.mark.parametrize("work", READS.values(), ids=READS)
def test_values_cannot_be_read(work):
    with pytest.raises(TraceRefused) as refused:
        see(work, policy="copy")
    assert refused.value.outcome is Outcome.HOST_READ
    assert "kernel" in refused.value.reason


@pytest.mark.parametrize("work", UPLOADS.values(), ids=UPLOADS)
def test_data_of_the_host_stays_there(work):
    with pytest.raises(TraceRefused) as refused:
        see(work, policy="copy")
    assert refused.value.outcome is Outcome.FORBIDDEN_OP
