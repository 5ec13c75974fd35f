"""Host code out of plans: exactly their steps, with numbers as Python writes them."""

import pytest

from service.export.extraction import NotExtractable, lift
from service.export.host_code import HostCodeWriter, HostTensor, TensorNames, functions_in, number, strides_of
from tests.service.export.pieces import OPERATOR, SOURCE, traced
from workers.protocol import Bundle, Copy, Launch, Plan, View

NAMES = TensorNames(inputs=("x",), upstream=("grad_y",), outputs=("y",), scalars=("by",))


def host(plan: Plan, bundle: Bundle | None = None) -> HostCodeWriter:
    found = bundle or traced()
    return HostCodeWriter(plan, OPERATOR, NAMES, found.kernels, lift(SOURCE, functions_in(plan)))


def changed(plan: Plan, at: int, **fields: object) -> Plan:
    steps = list(plan.steps)
    steps[at] = steps[at].model_copy(update=fields)
    return plan.model_copy(update={"steps": tuple(steps)})


def test_a_plan_becomes_a_function_of_its_steps() -> None:
    assert host(traced().plans[1]).forward("plan_1") == (
        "def plan_1(x):\n"
        "    b2 = torch.empty((1024,), dtype=torch.float32, device=x.device)\n"
        "    b3 = torch.empty((12,), dtype=torch.int32, device=x.device)\n"
        "    b3.fill_(0)\n"
        "    double_kernel[(4, 1, 1)](\n"
        "        x,\n        b3[8 : 12],\n        b2,\n        1024,\n        by=2.0,\n        FUNCTION=_scale,\n"
        "        BLOCK=256,\n        num_warps=2,\n        num_stages=3,\n    )\n"
        "    return b2"
    )


def test_gradients_begin_where_a_gradient_is_used() -> None:
    backward = host(traced().plans[0]).backward("plan_0_gradients")
    assert backward.startswith("def plan_0_gradients(grad_y, x, y):\n    b4 = torch.empty((4,)")
    assert "double_kernel[(1, 1, 1)](grad_y, b5[8 : 9], b4, 4," in backward.replace("\n        ", " ").replace(
        "( ", "("
    )
    assert backward.endswith("return b4")


def test_what_the_forward_function_keeps_is_handed_to_nobody() -> None:
    plan = traced().plans[0]
    assert isinstance(plan.steps[-1], Launch)
    kept = plan.steps[-1].arguments[1].model_copy(update={"buffer": 3})
    last = plan.steps[-1].arguments
    hiding = changed(plan, -1, arguments=(last[0], kept, *last[2:]))
    with pytest.raises(NotExtractable, match="uses values of the forward function"):
        host(hiding).backward("p")


def test_warps_that_nobody_asked_for_cannot_be_asked_for() -> None:
    bundle = traced()
    kernels = {digest: kernel.model_copy(update={"num_warps": 12}) for digest, kernel in bundle.kernels.items()}
    with pytest.raises(NotExtractable, match="its warps are specialised"):
        host(bundle.plans[0], bundle.model_copy(update={"kernels": kernels})).forward("p")


def test_results_that_share_memory_are_refused() -> None:
    plan = traced().plans[0]
    with pytest.raises(NotExtractable, match="share memory"):
        host(plan.model_copy(update={"outputs": (plan.outputs[0], plan.outputs[0])}))


def test_a_name_in_a_plan_is_looked_up_and_never_written() -> None:
    plan = traced().plans[0]
    at = next(at for at, step in enumerate(plan.steps) if step.op == "launch")
    step = plan.steps[at]
    assert isinstance(step, Launch)
    for constants in (
        {**step.constants, "BLOCK": "dtype:fp32"},
        {**step.constants, "BLOCK": "torch:float16"},
        {**step.constants, "BLOCK": "'); import os"},
        {**step.constants, "BLOCK": "text:torch:float16"},
        {**step.constants, "BLOCK": float("inf")},
        {**step.constants, "BLOCK": None},
    ):
        said = (
            host(plan).forward("p") if constants is None else host(changed(plan, at, constants=constants)).forward("p")
        )
        wanted = {"dtype:fp32": "tl.float32", "torch:float16": "torch.float16", "'); import os": '"\'); import os"'}
        wanted["text:torch:float16"] = "'torch:float16'"
        value = constants["BLOCK"]
        spelled = wanted[value] if isinstance(value, str) else {None: "None"}.get(value, 'float("inf")')
        assert f"BLOCK={spelled}" in said
    with pytest.raises(NotExtractable, match="differ from those of the launch"):
        host(changed(plan, at, constants={**step.constants, "MORE": 1})).forward("p")


def test_views_are_parts_of_flat_buffers() -> None:
    tensor = HostTensor("b", (4, 6), "bfloat16")
    assert tensor.view(View(buffer=0, shape=(4, 6), strides=(6, 1), dtype="bfloat16")) == "b"
    assert tensor.view(View(buffer=0, shape=(24,), strides=(1,), dtype="bfloat16")) == "b.view((24,))"
    assert tensor.view(View(buffer=0, shape=(6, 4), strides=(1, 6), dtype="bfloat16")) == "b.as_strided((6, 4), (1, 6))"
    part = View(buffer=0, offset_bytes=12, shape=(2, 3), strides=(3, 1), dtype="float32")
    assert tensor.view(part) == "b.view(-1).view(torch.float32)[3 : 9].view((2, 3))"
    with pytest.raises(NotExtractable, match="uses bytes 1 to 5"):
        tensor.part(1, 5, "bfloat16")
    assert strides_of((4, 6, 2)) == (12, 2, 1)


def test_copies_are_written_as_copies() -> None:
    plan = traced().plans[0]
    view = View(buffer=0, shape=(4,), strides=(1,), dtype="float32")
    copied = plan.model_copy(
        update={"steps": (*plan.steps[:1], Copy(source=view, target=view.model_copy(update={"buffer": 2})))}
    )
    assert "    b2.copy_(x)\n" in host(copied.model_copy(update={"outputs": plan.outputs[:1]})).forward("p")


def test_numbers_are_written_as_python_reads_them() -> None:
    for value in (True, 3, -2.5, 1e-30):
        assert eval(number(value)) == value
    assert number(float("-inf")) == 'float("-inf")' and number(float("nan")) == 'float("nan")'
