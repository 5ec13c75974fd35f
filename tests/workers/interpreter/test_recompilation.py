"""What is interpreted must compile to the plan's kernels, whatever host code did to them meanwhile."""

import pytest

from tests.workers.devices.kernels import AUTOTUNED, PLAIN, job_for
from workers import jail
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.recompilation import recompile
from workers.interpreter.taking import take_over
from workers.protocol import MeasureJob

LIMITS = jail.Limits(wall_s=60.0, cpu_s=60.0)
FACTOR = PLAIN.replace("y = e", "y = FACTOR * e").replace("@triton.jit", "FACTOR = tl.constexpr(1.0)\n\n\n@triton.jit")

CHANGED = {
    "a condition": (FACTOR.replace("\n\n\n@", "\nif True:\n    FACTOR = tl.constexpr(2.0)\n\n\n@"), "'FACTOR' in line"),
    "a function": (
        FACTOR.replace("    y = torch", "    global FACTOR\n    FACTOR = tl.constexpr(2.0)\n    y = torch"), "host code"
    ),
    "the module's globals": (FACTOR + "globals()['FACTOR'] = tl.constexpr(2.0)\n", "host code changed what it means"),
    "a constant's value": (FACTOR + "FACTOR.value = 2.0\n", "host code changed what it means"),
    "the kernel's text": (
        PLAIN + "kernel._unsafe_update_src(kernel.src.replace('y = e', 'y = 2.0 * e'))\n", "host code changed"
    ),
    "the compiler": (PLAIN + "tl.exp = tl.exp2\n", "host code changed what it means"),
}  # fmt: skip


def outcome(job: MeasureJob) -> str:
    """Why a variant is not interpreted, in a process of its own; empty if it may be."""

    def told(request: bytes) -> bytes:
        try:
            recompile(take_over(job.source), job.bundle.target, job.bundle.plans, job.bundle.kernels)
        except NotInterpretable as stopped:
            return f"{stopped.line}: {stopped.reason}".encode()
        return b""

    result = jail.run(told, b"", LIMITS)
    assert result.ending is jail.Ending.RETURNED, result.detail
    return result.reply.decode()


@pytest.mark.parametrize("source", [PLAIN, FACTOR, AUTOTUNED])
def test_what_nobody_changed_compiles_to_the_plans_kernels(source: str):
    assert outcome(job_for(source)) == ""


@pytest.mark.parametrize("given", ["num_warps=8", "maxnreg=64", "num_stages=1"])
def test_options_of_a_launch_are_those_of_the_plans_kernels(given: str):
    assert outcome(job_for(PLAIN.replace("BLOCK=", f"{given}, BLOCK="))) == ""


@pytest.mark.parametrize("what", CHANGED)
def test_what_host_code_changed_does_not(what: str):
    source, said = CHANGED[what]
    told = outcome(job_for(source))
    assert said in told and int(told.partition(":")[0]) > 0


ASKING = """    d = tl.make_tensor_descriptor(x_ptr, [n_cols], [1], [16])
    for _ in range(n_cols):
        d = d
    if {}:
        e = 2.0 * e
    y = e"""
"""What a kernel asks of its arguments, and what it has made, is what Triton's compiler answers."""


@pytest.mark.parametrize(
    ("asked", "answer"),
    [("d", True), ("x_ptr", False), ("n_cols", False), ("BLOCK", False), ("e", False), ("(d, d)", False), ("1", False)],
)
def test_kinds_that_a_kernel_may_ask_for(asked: str, answer: bool):
    question = f"isinstance({asked}, tl.tensor_descriptor)"
    told, chosen = (job_for(PLAIN.replace("    y = e", ASKING.format(said))) for said in (question, answer))
    assert told.bundle.kernels.keys() == chosen.bundle.kernels.keys()
    assert outcome(told) == ""


def test_constants_that_a_plan_claims_are_compiled_too():
    job = job_for(PLAIN)
    plans = [
        plan.model_copy(
            update={
                "steps": tuple(
                    step.model_copy(update={"constants": {"BLOCK": 2 * step.constants["BLOCK"]}})
                    if step.op == "launch"
                    else step
                    for step in plan.steps
                )
            }
        )
        for plan in job.bundle.plans
    ]
    forged = job.model_copy(update={"bundle": job.bundle.model_copy(update={"plans": tuple(plans)})})
    assert "compiles to another kernel than the plan's" in outcome(forged)


def test_a_kernel_that_host_code_makes_is_told_to_move_to_the_top_level():
    made = PLAIN.replace("@triton.jit\ndef kernel", "def plain").replace(
        "def softmax", "kernel = (lambda: triton.jit(plain))()\n\n\ndef softmax"
    )
    told = outcome(job_for(made))
    assert "define it there" in told, told


def test_only_names_that_kernels_read_are_told():
    source = (
        FACTOR.replace("= tl.constexpr(1.0)", "= (lambda: tl.constexpr(1.0))()")
        + "e = (lambda: 1)()\nCONFIGS = [triton.Config({})]\n"
    )
    told = outcome(job_for(source))
    assert "left out is what only host code can work out: 'FACTOR' in line" in told
    assert "'e'" not in told and "CONFIGS" not in told
