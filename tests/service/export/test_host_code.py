"""Host code out of symbolic plans: exactly their steps, with formulas as Python writes them."""

import pytest

from service.export.extraction import NotExtractable, lift
from service.export.host_code import HostCodeWriter, HostTensor, TensorNames, strides_of
from service.export.variants import ExportedFunction, exact_functions, functions_in
from tests.service.export.pieces import OPERATOR, SOURCE, traced, verified
from workers.protocol import SymbolicPlan
from workers.protocol.formula import parse
from workers.protocol.symbolic import SymbolicCopy, SymbolicLaunch, SymbolicView

NAMES = TensorNames(inputs=("x",), upstream=("grad_y",), outputs=("y",), scalars=("by",), sizes={"N": "N"})


def host(function: ExportedFunction) -> HostCodeWriter:
    return HostCodeWriter(function, OPERATOR, NAMES, lift(SOURCE, functions_in(function.plan)), {})


def exact(at: int = 0) -> ExportedFunction:
    return exact_functions(traced().plans)[at]


def with_plan(plan: SymbolicPlan, **changes: object) -> ExportedFunction:
    return ExportedFunction(plan.model_copy(update=changes), frozenset(), own=True)


def changed(plan: SymbolicPlan, at: int, **fields: object) -> ExportedFunction:
    steps = list(plan.steps)
    steps[at] = steps[at].model_copy(update=fields)
    return with_plan(plan, steps=tuple(steps))


LAUNCH = (
    "        x,\n        b3[8 : {end}],\n        b2,\n        {size},\n        by=2.0,\n        FUNCTION=_scale,\n"
    "        BLOCK=256,\n        num_warps=2,\n        num_stages=3,\n        num_ctas=1,\n"
)


def test_a_plan_becomes_a_function_of_its_steps() -> None:
    assert host(exact(1)).forward("plan_1") == (
        "def plan_1(x, N):\n"
        "    b2 = torch.empty((1024,), dtype=torch.float32, device=x.device)\n"
        "    b3 = torch.empty((12,), dtype=torch.int32, device=x.device)\n"
        "    b3.fill_(0)\n"
        "    double_kernel[(4, 1, 1)](\n" + LAUNCH.format(end=12, size=1024) + "    )\n"
        "    return b2"
    )


def test_formulas_become_expressions_of_the_sizes() -> None:
    aligned, generic = (host(function).forward("plan_0") for function in verified().module.functions)
    blocks = "(N + 255) // 256"
    assert aligned.startswith(
        "def plan_0(x, N):\n"
        "    b2 = torch.empty((N,), dtype=torch.float32, device=x.device)\n"
        f"    b3 = torch.empty((({blocks}) + 8,), dtype=torch.int32, device=x.device)\n"
        "    b3.fill_(0)\n"
        f"    double_kernel[({blocks}, 1, 1)](\n        x,\n        b3[8 : ({blocks}) + 8],\n        b2,\n        N,\n"
    )
    assert generic == aligned.replace("double_kernel[", "double_kernel__any_n["), "but for what Triton may assume"


def test_gradients_begin_where_a_gradient_is_used() -> None:
    backward = host(exact()).backward("plan_0_gradients")
    assert backward.startswith("def plan_0_gradients(grad_y, x, y, N):\n    b4 = torch.empty((4,)")
    assert "double_kernel[(1, 1, 1)](grad_y, b5[8 : 9], b4, 4," in backward.replace("\n        ", " ").replace(
        "( ", "("
    )
    assert backward.endswith("return b4")


def test_what_the_forward_function_keeps_is_handed_to_nobody() -> None:
    plan = exact().plan
    assert isinstance(plan.steps[-1], SymbolicLaunch)
    last = plan.steps[-1].arguments
    hiding = changed(plan, -1, arguments=(last[0], last[1].model_copy(update={"buffer": 3}), *last[2:]))
    with pytest.raises(NotExtractable, match="uses values of the forward function"):
        host(hiding).backward("p")


def test_results_that_share_memory_are_refused() -> None:
    plan = exact().plan
    with pytest.raises(NotExtractable, match="share memory"):
        host(with_plan(plan, outputs=(plan.outputs[0], plan.outputs[0])))


def test_a_name_in_a_plan_is_looked_up_and_never_written() -> None:
    plan = exact().plan
    at = next(at for at, step in enumerate(plan.steps) if step.op == "launch")
    step = plan.steps[at]
    assert isinstance(step, SymbolicLaunch)
    for constants in (
        {**step.constants, "BLOCK": "dtype:fp32"},
        {**step.constants, "BLOCK": "torch:float16"},
        {**step.constants, "BLOCK": "'); import os"},
        {**step.constants, "BLOCK": "text:torch:float16"},
        {**step.constants, "BLOCK": float("inf")},
        {**step.constants, "BLOCK": None},
    ):
        said = host(changed(plan, at, constants=constants)).forward("p")
        wanted = {"dtype:fp32": "tl.float32", "torch:float16": "torch.float16", "'); import os": '"\'); import os"'}
        wanted["text:torch:float16"] = "'torch:float16'"
        value = constants["BLOCK"]
        spelled = wanted[value] if isinstance(value, str) else {None: "None"}.get(value, 'float("inf")')
        assert f"BLOCK={spelled}" in said
    with pytest.raises(NotExtractable, match="differ from those of the launch"):
        host(changed(plan, at, constants={**step.constants, "MORE": 1})).forward("p")


def view(**changes: object) -> SymbolicView:
    return SymbolicView.model_validate(
        {"buffer": 0, "shape": (4, 6), "strides": (6, 1), "dtype": "bfloat16", **changes}
    )


def test_views_are_parts_of_flat_buffers() -> None:
    tensor = HostTensor("b", (4, 6), "bfloat16", {})
    assert tensor.view(view()) == "b"
    assert tensor.view(view(shape=(24,), strides=(1,))) == "b.view((24,))"
    assert tensor.view(view(shape=(6, 4), strides=(1, 6))) == "b.as_strided((6, 4), (1, 6))"
    part = view(offset_bytes=12, shape=(2, 3), strides=(3, 1), dtype="float32")
    assert tensor.view(part) == "b.view(-1).view(torch.float32)[3 : 9].view((2, 3))"
    with pytest.raises(NotExtractable, match="uses byte 1 "):
        tensor.part(1, 5, "bfloat16")
    assert strides_of((4, 6, 2)) == (12, 2, 1)


def test_views_of_any_size_are_formulas() -> None:
    tensor = HostTensor("b", ("M", "N"), "bfloat16", {"M": "M", "N": "N"})
    assert tensor.view(view(shape=("M", "N"), strides=("N", 1))) == "b"
    assert tensor.view(view(shape=("N", "M"), strides=(1, "N"))) == "b.as_strided((N, M), (1, N))"
    later = view(offset_bytes=parse(["*", ["*", 4, "N"], 2]), shape=(parse(["-", "M", 4]), "N"), strides=("N", 1))
    assert tensor.view(later) == "b.view(-1)[4 * N : M * N].view((M - 4, N))"
    with pytest.raises(NotExtractable, match="as bfloat16"):
        tensor.part(parse(["*", "N", 3]), "N", "bfloat16")


def test_copies_are_written_as_copies() -> None:
    plan = exact().plan
    source = view(shape=(4,), strides=(1,), dtype="float32")
    copy = SymbolicCopy(source=source, target=source.model_copy(update={"buffer": 2}))
    copied = with_plan(plan, steps=(*plan.steps[:1], copy), outputs=plan.outputs[:1])
    assert "    b2.copy_(x)\n" in host(copied).forward("p")
