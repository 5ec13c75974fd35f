import pytest

from tests.workers.tracer.jobs import ALLOCATE, HEADER, LAUNCH, traced
from workers.protocol import Outcome

BODY = "".join(f"    {line}\n" for line in (ALLOCATE + LAUNCH).splitlines())
SIGNATURE = "(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:\n"
WAYS = {
    "custom_op": (
        f"@torch.library.custom_op('mine::scale', mutates_args=())\ndef scale{SIGNATURE}{BODY}\n\n"
        "@scale.register_fake\ndef _(x, w):\n    return torch.empty_like(x)\n"
    ),
    "triton_op": (
        f"from torch.library import triton_op, wrap_triton\n\n\n@triton_op('mine::scale', mutates_args={{}})\n"
        f"def scale{SIGNATURE}{BODY.replace('scale_kernel[', 'wrap_triton(scale_kernel)[')}"
    ),
    "by its name": (
        f"@torch.library.custom_op('mine::op', mutates_args=())\ndef op{SIGNATURE}{BODY}\n\n"
        "@torch.library.register_fake('mine::op')\ndef _(x, w):\n    return torch.empty_like(x)\n\n\n"
        "def scale(x, w):\n    return torch.ops.mine.op.default(x, w) if op else torch.ops.mine.op(x, w)\n"
    ),
    "a kernel for cuda": (
        f"@torch.library.custom_op('mine::scale', mutates_args=(), device_types='cpu')\ndef scale{SIGNATURE}"
        f"    return x * w\n\n\n@scale.register_kernel('cuda')\ndef _{SIGNATURE}{BODY}"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_registered_function_is_traced_as_itself(way):
    reply = traced(HEADER + WAYS[way])
    assert reply.outcome is Outcome.CORRECT, reply.reason
    assert [launch.function for launch in reply.variants[0].plans[0].launches] == ["scale_kernel"]


def test_an_operator_that_computes_on_the_host_is_refused():
    reply = traced(
        HEADER + f"@torch.library.custom_op('mine::scale', mutates_args=())\ndef scale{SIGNATURE}    return x * w\n"
    )
    assert reply.outcome is Outcome.FORBIDDEN_OP and "(mul)" in reply.reason
