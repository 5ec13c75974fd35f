import json

import pytest
import torch
import triton

from tests.workers.tracer.jobs import in_jail
from workers.protocol import Outcome
from workers.targets import TARGETS
from workers.tracer.fake_device import gpu_target, pretend
from workers.tracer.refusal import TraceRefused

QUESTIONS = {
    "available": lambda: torch.cuda.is_available(),
    "devices": lambda: torch.cuda.device_count(),
    "current": lambda: torch.cuda.current_device(),
    "capability": lambda: list(torch.cuda.get_device_capability()),
    "name": lambda: torch.cuda.get_device_name(0),
    "sms": lambda: torch.cuda.get_device_properties("cuda").multi_processor_count,
    "warp": lambda: torch.cuda.get_device_properties(0).warp_size,
    "shared": lambda: torch.cuda.get_device_properties(0).shared_memory_per_block_optin,
    "gcn": lambda: torch.cuda.get_device_properties(0).gcnArchName,
    "bf16": lambda: torch.cuda.is_bf16_supported(),
    "stream": lambda: torch.cuda.current_stream().cuda_stream,
    "accelerator": lambda: str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "",
    "accelerators": lambda: torch.accelerator.device_count() + torch.accelerator.current_device_index(),
    "accelerator index": lambda: _enter_accelerator(),
    "module": lambda: torch.get_device_module("cuda") is torch.get_device_module(torch.device("cuda", 0)) is torch.cuda,
    "wrapped": lambda: torch.library.wrap_triton(len) is len,
    "sync": lambda: torch.cuda.synchronize(),
    "hip": lambda: torch.version.hip is not None,
    "cuda": lambda: torch.version.cuda is not None,
    "driver sms": lambda: triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"],
    "driver shared": lambda: triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"],
    "driver target": lambda: str(triton.runtime.driver.active.get_current_target().arch),
    "driver device": lambda: str(triton.runtime.driver.active.get_active_torch_device()),
    "allocator": lambda: triton.set_allocator(lambda size, align, stream: None),
    "contexts": lambda: _enter_contexts(),
}


def _enter_contexts():
    with torch.cuda.device(0), torch.cuda.device("cuda:0"), torch.cuda.stream(torch.cuda.current_stream()):
        with torch.cuda.nvtx.range("a name for a profiler"):
            torch.cuda.nvtx.mark("here")
        return "entered"


def _enter_accelerator():
    torch.accelerator.set_device_index(0)
    with torch.accelerator.device_index(0):
        return torch.accelerator.current_stream().cuda_stream


def answers(target):
    def ask(_):
        pretend(TARGETS[target])
        return json.dumps({name: question() for name, question in QUESTIONS.items()}).encode()

    return json.loads(in_jail(ask))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_questions_are_answered_for_the_target(target):
    sheet = TARGETS[target]
    nvidia = sheet.vendor == "nvidia"
    assert answers(target) == {
        "available": True,
        "devices": 1,
        "accelerator": "cuda",
        "accelerators": 1,
        "accelerator index": 0,
        "module": True,
        "wrapped": True,
        "current": 0,
        "capability": list(sheet.capability) if nvidia else [9, 4],
        "name": sheet.card,
        "sms": sheet.sms,
        "warp": sheet.warp_size,
        "shared": sheet.shared_block_bytes,
        "gcn": "" if nvidia else "gfx942",
        "bf16": True,
        "stream": 0,
        "sync": None,
        "hip": not nvidia,
        "cuda": nvidia,
        "driver sms": sheet.sms,
        "driver shared": sheet.shared_block_bytes,
        "driver target": str(sheet.arch),
        "driver device": "cuda:0",
        "allocator": None,
        "contexts": "entered",
    }


REFUSED = {
    "stream": lambda: torch.cuda.Stream(),
    "event": lambda: torch.cuda.Event(enable_timing=True),
    "graph": lambda: torch.cuda.CUDAGraph(),
    "benchmark": lambda: triton.testing.do_bench(lambda: None),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_a_plan_cannot_hold_is_refused(call):
    def attempt(_):
        pretend(TARGETS["sm_90"])
        with pytest.raises(TraceRefused) as refused:
            call()
        return refused.value.outcome.encode()

    assert in_jail(attempt).decode() == Outcome.FORBIDDEN_OP


def test_targets_have_triton_s_names():
    assert (gpu_target(TARGETS["sm_90"]).backend, gpu_target(TARGETS["sm_90"]).arch) == ("cuda", 90)
    assert (gpu_target(TARGETS["gfx942"]).backend, gpu_target(TARGETS["gfx942"]).arch) == ("hip", "gfx942")
