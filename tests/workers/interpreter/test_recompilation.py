"""Interpreted code must compile to the plan's kernels, even if host code has changed them."""

from collections.abc import Callable

import pytest

from tests.workers.devices.kernels import AUTOTUNED, PLAIN, TUPLES, job_for
from workers import sandbox
from workers.interpreter.extract import extract_module
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.recompilation import recompile
from workers.protocol import Launch, MeasureJob, Number

LIMITS = sandbox.SandboxLimits(wall_s=60.0, cpu_s=60.0)
FACTOR = PLAIN.replace("y = e", "y = FACTOR * e").replace("@triton.jit", "FACTOR = tl.constexpr(1.0)\n\n\n@triton.jit")

CHANGED = {
    "a loop": (
        FACTOR.replace("\n\n\n@", "\nfor _ in range(1):\n    FACTOR = tl.constexpr(2.0)\n\n\n@"), "'FACTOR' in line"
    ),
    "a module that host code chooses": (
        PLAIN.replace(
            "\n\n\n@",
            "\nimport types\nif torch.cuda.is_available():\n    tl = types.ModuleType('triton.language')\n"
            "    vars(tl).update(vars(triton.language))\n    tl.exp = tl.exp2\n\n\n@",
            1,
        ),
        "host code changed what it means",
    ),
    "an import that host code chooses": (
        PLAIN.replace("tl.exp(", "exponential(").replace(
            "\n\n\n@",
            "\nif not torch.cuda.is_available():\n    from triton.language import exp2 as exponential\n"
            "else:\n    from triton.language import exp as exponential\n\n\n@",
            1,
        ),
        "'exponential' in line",
    ),
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
    """Return the reason why a variant is not interpreted, in its own process; empty if it is."""

    def told(request: bytes) -> bytes:
        try:
            recompile(extract_module(job.source), job.bundle.target, job.bundle.plans, job.bundle.kernels)
        except NotInterpretable as stopped:
            return f"{stopped.line}: {stopped.reason}".encode()
        return b""

    result = sandbox.run(told, b"", LIMITS)
    assert result.ending is sandbox.SandboxEnding.RETURNED, result.detail
    return result.reply.decode()


@pytest.mark.parametrize("source", [PLAIN, FACTOR, AUTOTUNED])
def test_what_nobody_changed_compiles_to_the_plans_kernels(source: str):
    assert outcome(job_for(source)) == ""


def test_a_kernel_that_host_code_decorates_is_told_what_to_write():
    made = "\n\ndef made(function):\n    return triton.jit(function)\n\n\n@made\n"
    assert "write `@triton.jit` right above it" in outcome(job_for(PLAIN.replace("@triton.jit\n", made)))


@pytest.mark.parametrize("given", ["num_warps=8", "maxnreg=64", "num_stages=1", "enable_fp_fusion=False"])
def test_options_of_a_launch_are_those_of_the_plans_kernels(given: str):
    assert outcome(job_for(PLAIN.replace("BLOCK=", f"{given}, BLOCK="))) == ""


CLUSTERS = "".join(
    line for line in AUTOTUNED.splitlines(keepends=True) if not line.startswith(("@triton.a", "@triton.h"))
).replace("x.shape[0], x.shape[1])", "x.shape[0], x.shape[1], 4, triton.next_power_of_2(x.shape[1]), num_ctas=2)")


def test_kernels_in_clusters_are_the_same_but_for_the_order_of_their_instructions():
    assert outcome(job_for(CLUSTERS)) == ""
    other = "\nkernel._unsafe_update_src(kernel.src.replace('e / ', '2.0 * e / '))\n"
    assert "host code changed" in outcome(job_for(CLUSTERS + other))


ALIKE = """

@triton.jit
def scale(x, MODE: tl.constexpr):
    return x if MODE == "[" else x * 1.5


@triton.jit
def kernel"""


def test_two_specialisations_that_triton_takes_for_one_are_refused():
    source = PLAIN.replace("\n\n@triton.jit\ndef kernel", ALIKE)
    assert outcome(job_for(source.replace("y = e", "y = scale(e, '['); y = scale(e, '[')", 1))) == ""
    told = outcome(job_for(source.replace("y = e", "y = scale(scale(e, '['), '_')", 1)))
    assert "takes two specialisations" in told, told


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
"""Kernels whose questions about values get the answers of Triton's compiler."""


@pytest.mark.parametrize(
    ("asked", "answer"),
    [("d", True), ("x_ptr", False), ("n_cols", False), ("BLOCK", False), ("e", False), ("(d, d)", False), ("1", False)],
)
def test_kinds_that_a_kernel_may_ask_for(asked: str, answer: bool):
    question = f"isinstance({asked}, tl.tensor_descriptor)"
    told, chosen = (job_for(PLAIN.replace("    y = e", ASKING.format(said))) for said in (question, answer))
    assert told.bundle.kernels.keys() == chosen.bundle.kernels.keys()
    assert outcome(told) == ""


def changed(job: MeasureJob, change: Callable[[Launch], dict[str, object]]) -> MeasureJob:
    """Return the job with other launches."""
    plans = [
        plan.model_copy(
            update={
                "steps": tuple(
                    step.model_copy(update=change(step)) if isinstance(step, Launch) else step for step in plan.steps
                )
            }
        )
        for plan in job.bundle.plans
    ]
    return job.model_copy(update={"bundle": job.bundle.model_copy(update={"plans": tuple(plans)})})


def test_types_and_constants_that_a_plan_claims_are_those_that_are_compiled():
    job = job_for(PLAIN)

    def other_types(step: Launch) -> dict[str, object]:
        return {
            "arguments": tuple(
                a.model_copy(update={"type": "i64"}) if isinstance(a, Number) else a for a in step.arguments
            )
        }

    def other_constants(step: Launch) -> dict[str, object]:
        return {
            "arguments": tuple(a for a in step.arguments if not isinstance(a, Number)),
            "parameters": tuple(
                n for n, a in zip(step.parameters, step.arguments, strict=True) if not isinstance(a, Number)
            ),
            "constants": step.constants
            | {n: a.value for n, a in zip(step.parameters, step.arguments, strict=True) if isinstance(a, Number)},
        }

    def other_order(step: Launch) -> dict[str, object]:
        return {"parameters": (step.parameters[1], step.parameters[0], *step.parameters[2:])}

    assert outcome(changed(job, lambda step: {})) == ""
    for change in (other_types, other_constants, other_order):
        assert "something else than it is compiled for" in outcome(changed(job, change))


@pytest.mark.parametrize(
    "renamed",
    [
        {"pointers.0.1": "pointers.1", "pointers.1": "pointers.0.1"},
        {"pointers.0.1": "pointers.0.2"},
        {"pointers.1": "pointers"},
        {"sizes.0": "sizes.2"},
    ],
)
def test_parts_of_tuples_are_those_that_a_plan_claims(renamed: dict[str, str]):
    job = job_for(TUPLES)
    forged = changed(job, lambda step: {"parameters": tuple(renamed.get(name, name) for name in step.parameters)})
    assert outcome(job) == "" and outcome(forged)


def test_constants_that_a_plan_claims_are_compiled_too():
    job = job_for(PLAIN)
    forged = changed(job, lambda step: {"constants": {"BLOCK": 2 * step.constants["BLOCK"]}})
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
    assert "values that only host code computes are missing: 'FACTOR' in line" in told
    assert "'e'" not in told and "CONFIGS" not in told
