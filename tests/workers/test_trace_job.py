"""The trace side as a whole: catalogue seeds for every target, and candidates that are broken or hostile."""

import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.traces import trace_once
from tests.workers.tracer.jobs import candidate, job, operator, shape
from workers import sandbox, trace_job
from workers.errors import ToolMissing
from workers.protocol import Bundle, Operator, Outcome, ShapeRole, Stage, TraceReport
from workers.targets import TARGETS

ROGUES = Path(__file__).parent / "rogues" / "host"
CATALOGUE = Path(__file__).parents[2] / "operators"
TARGET_NAMES = ("sm_80", "sm_90", "sm_100", "gfx942")

TOO_LONG = ("of processor time", "did not end within")
"""Where nothing else runs the first comes true before the second."""
EXPECTED = {
    "adds_in_half": (Outcome.PRECISION, 22, "accumulate in f16"),
    "asks_for_a_retry": (Outcome.TRACE_CRASHED, 19, "RuntimeError: CUDA error"),
    "asks_for_the_launch": (Outcome.PLAN_REJECTED, None, "%gridid"),
    "asks_where_it_runs": (Outcome.PLAN_REJECTED, None, "%smid"),
    "asks_whether_it_trains": (Outcome.PLAN_REJECTED, 18, "launches no kernel"),
    "begs_in_its_error": (Outcome.TRACE_CRASHED, 19, "Ignore all"),
    "block_of_three": (Outcome.COMPILE_ERROR, 11, "power of 2"),
    "branches_on_a_value": (Outcome.HOST_READ, 19, "as a condition"),
    "caches_by_identity": (Outcome.CORRECT, None, ""),
    "caches_by_pointer": (Outcome.PLAN_REJECTED, 21, "an earlier call allocated"),
    "calls_itself": (Outcome.PLAN_REJECTED, None, "calls itself"),
    "captures_a_graph": (Outcome.FORBIDDEN_OP, 19, "CUDAGraph"),
    "changes_its_kernel": (Outcome.CORRECT, None, ""),
    "claims_another_dtype": (Outcome.WRONG_OUTPUT_TYPE, None, "number and dtypes"),
    "claims_larger_inputs": (Outcome.PLAN_REJECTED, None, "not those of the operator"),
    "claims_too_much_memory": (Outcome.PLAN_REJECTED, None, "the buffers take"),
    "compiles_with_torch": (Outcome.FORBIDDEN_OP, 19, "(mul): do it in a Triton kernel"),
    "computes_with_torch": (Outcome.FORBIDDEN_OP, 19, "(mul)"),
    "copies_to_reorder": (Outcome.FORBIDDEN_OP, 19, "strides"),
    "counts_calls": (Outcome.CORRECT, None, ""),
    "crashes_the_process": (Outcome.TRACE_CRASHED, 19, "ended by SIGSEGV in string_at (__init__.py, line "),
    "decodes_itself": (Outcome.CORRECT, None, ""),
    "decoy_launch": (Outcome.FORBIDDEN_OP, 21, "(mul)"),
    "defers_to_the_end": (Outcome.PLAN_REJECTED, 26, "launches no kernel"),
    "deletes_torch": (Outcome.TRACE_CRASHED, 19, "OSError"),
    "draws_random_numbers": (Outcome.FORBIDDEN_OP, 19, "tl.rand"),
    "exits": (Outcome.TRACE_CRASHED, None, "exit status 0"),
    "exits_politely": (Outcome.TRACE_CRASHED, 19, "SystemExit"),
    "fills_the_disk": (Outcome.TRACE_CRASHED, 19, "OSError"),
    "floods_its_streams": (Outcome.CORRECT, None, ""),
    "floods_the_pipe": (Outcome.PLAN_REJECTED, None, "answers with more than"),
    "forges_a_verdict": (Outcome.PLAN_REJECTED, None, "no variant"),
    "forges_an_outcome": (Outcome.PLAN_REJECTED, None, "that a trace cannot have"),
    "forges_garbage": (Outcome.PLAN_REJECTED, None, "invalid plan"),
    "forgets_an_argument": (Outcome.TRACE_CRASHED, 20, "n_cols"),
    "forks": (Outcome.TRACE_CRASHED, 20, "BlockingIOError"),
    "grid_of_four": (Outcome.UNSUPPORTED_LAUNCH, 20, "4 dimensions"),
    "grid_of_fractions": (Outcome.UNSUPPORTED_LAUNCH, 20, "triton.cdiv"),
    "hides_a_launch_option": (Outcome.PLAN_REJECTED, None, "warps"),
    "hides_behind_a_name": (Outcome.CORRECT, None, ""),
    "hoards_memory": (Outcome.TRACE_MEMORY, None, "bytes of memory"),
    "imports_a_library": (Outcome.FORBIDDEN_IMPORT, 3, "'liger_kernel'"),
    "imports_by_name": (Outcome.FORBIDDEN_IMPORT, 19, "'sys'"),
    "imports_numpy_late": (Outcome.FORBIDDEN_IMPORT, 19, "'numpy'"),
    "imports_the_reference": (Outcome.FORBIDDEN_IMPORT, 3, "'reference'"),
    "keeps_its_output": (Outcome.PLAN_REJECTED, 21, "in every call"),
    "keeps_shared_memory": (Outcome.PLAN_REJECTED, None, ".shared memory"),
    "keeps_the_compiler_busy": (Outcome.TRACE_TIMEOUT, 19, TOO_LONG),
    "knows_its_address": (Outcome.CORRECT, None, ""),
    "launches_thousands_of_times": (Outcome.PLAN_REJECTED, 21, "fuse"),
    "launches_dependent": (Outcome.UNSUPPORTED_LAUNCH, 20, "'launch_pdl'"),
    "launches_nothing": (Outcome.PLAN_REJECTED, 18, "launches no kernel"),
    "launches_on_a_stream": (Outcome.FORBIDDEN_OP, 19, "one stream"),
    "launches_while_loading": (Outcome.UNSUPPORTED_LAUNCH, 18, "while the module loads"),
    "launches_with_fewer_arguments": (Outcome.PLAN_REJECTED, 33, "arguments"),
    "leaves_a_hook": (Outcome.CORRECT, None, ""),
    "loops": (Outcome.TRACE_TIMEOUT, 19, TOO_LONG),
    "markdown_fence": (Outcome.SYNTAX_ERROR, 1, "```python"),
    "moves_to_the_host": (Outcome.HOST_READ, 19, "(cpu)"),
    "multiplies_in_float8": (Outcome.PRECISION, 22, "multiply e4m3"),
    "no_entry": (Outcome.SYNTAX_ERROR, None, "defines no function 'scale'"),
    "outlives_its_end": (Outcome.TRACE_CRASHED, 20, "BlockingIOError"),
    "overrides_its_output": (Outcome.CORRECT, None, ""),
    "passes_a_host_tensor": (Outcome.PLAN_REJECTED, 20, "device=x.device"),
    "passes_a_tagged_text": (Outcome.CORRECT, None, ""),
    "passes_an_address": (Outcome.UNSUPPORTED_LAUNCH, 20, "pass the tensor itself"),
    "patches_the_comparison": (Outcome.CORRECT, None, ""),
    "patches_the_timer": (Outcome.PLAN_REJECTED, None, "stages_s"),
    "points_outside": (Outcome.PLAN_REJECTED, None, "leaves buffer 0"),
    "prints_a_tensor": (Outcome.HOST_READ, 19, "to print it"),
    "raises": (Outcome.TRACE_CRASHED, 19, "ZeroDivisionError"),
    "reaches_beyond_its_input": (Outcome.PLAN_REJECTED, 19, "exceeds the 32768 bytes"),
    "reaches_the_host": (Outcome.PLAN_REJECTED, None, "system scope"),
    "reads_an_item": (Outcome.HOST_READ, 19, "(item)"),
    "reads_its_callers": (Outcome.CORRECT, None, ""),
    "reads_before_its_parameters": (Outcome.PLAN_REJECTED, None, "must name its parameter"),
    "reads_the_clock": (Outcome.PLAN_REJECTED, None, "clock"),
    "recurses": (Outcome.TRACE_CRASHED, 19, "RecursionError"),
    "replaces_the_checks": (Outcome.PLAN_REJECTED, None, "memory of input 'x'"),
    "replaces_the_recorder": (Outcome.PLAN_REJECTED, 23, "launches no kernel"),
    "returns_a_host_tensor": (Outcome.WRONG_OUTPUT_TYPE, 18, "host tensor"),
    "returns_a_subclass": (Outcome.CORRECT, None, ""),
    "returns_a_view_of_its_input": (Outcome.PLAN_REJECTED, 18, "memory of input 'x'"),
    "returns_an_object": (Outcome.WRONG_OUTPUT_TYPE, 23, "Trap"),
    "returns_another_dtype": (Outcome.WRONG_OUTPUT_TYPE, 18, "float16"),
    "returns_its_input": (Outcome.PLAN_REJECTED, 18, "memory of input 'x'"),
    "returns_nothing": (Outcome.WRONG_OUTPUT_TYPE, 18, "NoneType"),
    "returns_two": (Outcome.WRONG_OUTPUT_TYPE, 18, "returns 2 results"),
    "rewrites_the_grid": (Outcome.CORRECT, None, ""),
    "runs_a_command": (Outcome.TRACE_CRASHED, 19, "BlockingIOError"),
    "says_two_things": (Outcome.CORRECT, None, ""),
    "shows_another_constant": (Outcome.CORRECT, None, ""),
    "shrinks_an_input": (Outcome.PLAN_REJECTED, None, "leaves buffer 0"),
    "sleeps": (Outcome.PLAN_REJECTED, None, "may not sleep"),
    "slips_in_a_copy": (Outcome.FORBIDDEN_OP, None, "policy does not allow"),
    "swallows_refusals": (Outcome.CORRECT, None, ""),
    "takes_other_arguments": (Outcome.TRACE_CRASHED, 18, "positional argument"),
    "tampers_with_modules": (Outcome.TRACE_CRASHED, 20, "Error"),
    "tells_traces_apart": (Outcome.CORRECT, None, ""),
    "times_on_the_host": (Outcome.FORBIDDEN_OP, 19, "Event"),
    "too_much_shared_memory": (Outcome.COMPILE_ERROR, 22, "589824 bytes of shared memory of the 232448"),
    "unclosed_bracket": (Outcome.SYNTAX_ERROR, 7, "never closed"),
    "undefined_name": (Outcome.COMPILE_ERROR, 15, "weight is not defined"),
    "unknown_argument": (Outcome.UNSUPPORTED_LAUNCH, 20, "'EVEN'"),
    "uploads_a_table": (Outcome.FORBIDDEN_OP, 19, "host data"),
    "uses_before_allocating": (Outcome.PLAN_REJECTED, None, "before it is allocated"),
    "waits_for_its_neighbours": (Outcome.PLAN_REJECTED, None, "programmatic dependent launch"),
    "walks_the_collector": (Outcome.CORRECT, None, ""),
    "warms_up": (Outcome.UNSUPPORTED_LAUNCH, 19, "multiprocessors"),
    "works_in_a_thread": (Outcome.PLAN_REJECTED, 18, "launches no kernel"),
    "writes_a_file": (Outcome.TRACE_CRASHED, 19, "OSError"),
    "writes_elsewhere": (Outcome.PLAN_REJECTED, None, "nothing writes output 'y'"),
    "writes_its_own_assembly": (Outcome.PLAN_REJECTED, None, "'memory'"),
}
"""What each rogue comes to: the outcome, the candidate's line, and words of the reason."""
DEADLINES_S = {"loops": 2.0, "keeps_the_compiler_busy": 2.0}
"""Rogues that only time stops."""


def rogue(name: str) -> TraceReport:
    source = (ROGUES / f"{name}.py").read_text()
    late = {"deadline_s": DEADLINES_S[name]} if name in DEADLINES_S else {}
    return trace_once(job(source, **late))


NEEDS = {
    "deletes_torch": {"readonly", "nobody"},
    **{name: {"seccomp"} for name in ("forks", "outlives_its_end", "runs_a_command")},
    **{name: {"readonly"} for name in ("fills_the_disk", "writes_a_file")},
}
"""Rogues that only run where one of these layers of the jail stands between them and the machine."""


def test_every_rogue_is_expected_to_end_somehow():
    assert {path.stem for path in ROGUES.glob("*.py")} == set(EXPECTED)


def test_rogues_reach_every_outcome_of_the_trace_side():
    assert {outcome for outcome, _, _ in EXPECTED.values()} == {
        Outcome.CORRECT,
        Outcome.SYNTAX_ERROR,
        Outcome.FORBIDDEN_IMPORT,
        Outcome.FORBIDDEN_OP,
        Outcome.HOST_READ,
        Outcome.UNSUPPORTED_LAUNCH,
        Outcome.COMPILE_ERROR,
        Outcome.TRACE_TIMEOUT,
        Outcome.TRACE_MEMORY,
        Outcome.TRACE_CRASHED,
        Outcome.PLAN_REJECTED,
        Outcome.WRONG_OUTPUT_TYPE,
        Outcome.PRECISION,
    }


def says(reason: str, said: str | tuple[str, ...]) -> bool:
    """Whether a reason has a text in it, or one of several."""
    return any(each in reason for each in ((said,) if isinstance(said, str) else said))


@pytest.mark.parametrize("name", EXPECTED)
def test_rogues_end_as_expected(name):
    outcome, line, said = EXPECTED[name]
    if NEEDS.get(name, set()).isdisjoint(sandbox.probe().split("+")) and name in NEEDS:
        pytest.skip(f"this machine has only {sandbox.probe()}")
    report = rogue(name)
    assert (report.outcome, report.line) == (outcome, line), report.reason
    assert says(report.reason, said)
    assert all(variant.bundle is None for variant in report.variants) or outcome is Outcome.CORRECT


def test_a_rewritten_plan_is_the_plan_that_is_judged():
    (variant,) = rogue("rewrites_the_grid").variants
    assert variant.bundle is not None
    assert variant.bundle.plans[0].launches[0].grid == (1, 1, 1)
    assert variant.readings[0].programs == 1


def test_a_report_tells_everything_about_its_making():
    report = trace_job.trace(job(candidate()), "worker-1")
    assert (report.job, report.search, report.candidate, report.worker) == (
        *("job-1", "search-1", "candidate-1"),
        "worker-1",
    )
    assert set(report.versions) == {"python", "torch", "triton", "ptxas"}
    assert report.jail
    assert set(report.stages_s) == {"trace", "compile", "jail", "assemble"}
    assert all(seconds > 0 for seconds in report.stages_s.values())
    assert TraceReport.model_validate_json(report.model_dump_json()) == report


def test_equal_candidates_have_one_identity_whatever_their_names():
    def identity(source):
        (variant,) = trace_job.trace(job(source), "worker-1").variants
        return variant.bundle.identity

    other = candidate().replace("scale_kernel", "multiply").replace("    row =", "    # By row.\n    row =")
    assert identity(candidate()) == identity(other)
    assert identity(candidate()) != identity(candidate().replace("x * w", "w * x + x"))


def test_variants_have_bundles_and_outcomes_of_their_own():
    source = candidate().replace(", BLOCK=triton.next_power_of_2(x.shape[1])", "")
    configs = "triton.Config({'BLOCK': 128}), triton.Config({'BLOCK': 100}), triton.Config({'BLOCK': 128}, num_warps=8)"
    tuned = source.replace("@triton.jit", f"@triton.autotune(configs=[{configs}], key=[])\n@triton.jit")
    report = trace_job.trace(job(tuned), "worker-1")
    assert report.outcome is Outcome.CORRECT
    assert [variant.outcome for variant in report.variants] == [
        *(Outcome.CORRECT, Outcome.COMPILE_ERROR, Outcome.CORRECT),
    ]
    good = [variant.bundle for variant in report.variants if variant.bundle]
    assert [bundle.configuration["num_warps"] for bundle in good] == [4, 8]
    assert len({bundle.identity for bundle in good}) == 2
    assert all(len(bundle.kernels) == 1 for bundle in good)


def test_unknown_targets_are_not_the_candidate_s_fault():
    with pytest.raises(ToolMissing, match="sm_75"):
        trace_job.trace(job(candidate(), target="sm_75"), "worker-1")


@cache
def catalogue(name: str) -> Operator:
    folder = CATALOGUE / name
    spec = tomllib.loads((folder / "operator.toml").read_text())
    spec["reference"] = (folder / spec["reference"]).read_text()
    spec["shapes"] = [{"dims": {key: size for key, size in item.items() if key != "weight"}} for item in spec["shapes"]]
    return Operator.model_validate({key: value for key, value in spec.items() if key != "seeds"})


SEEDS = sorted(CATALOGUE.glob("*/seeds/*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_seeds_of_the_catalogue_become_bundles(seed):
    of = catalogue(seed.parts[-3])
    report = trace_job.trace(job(seed.read_text(), of), "worker-1")
    assert report.outcome is Outcome.CORRECT, report.reason
    assert all(len(variant.bundle.plans) == len(variant.readings) == len(of.shapes) for variant in report.variants)


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_every_target_gets_machine_code(target):
    seed = CATALOGUE / "rmsnorm" / "seeds"
    report = trace_job.trace(job(next(seed.glob("*.py")).read_text(), catalogue("rmsnorm"), target=target), "worker-1")
    assert report.outcome is Outcome.CORRECT, report.reason
    bundle = report.variants[0].bundle
    assert isinstance(bundle, Bundle)
    assert set(bundle.cubins) == set(bundle.kernels)
    assert bundle.target == target
    assert report.variants[0].readings[0].programs_per_sm == pytest.approx(
        report.variants[0].readings[0].programs / TARGETS[target].sms
    )


def test_without_a_source_the_reference_is_exported():
    shapes = (shape(M=64, N=128), shape(ShapeRole.BOUNDARY, M=1, N=1))
    report = trace_job.trace(job(None, shapes=shapes), "worker-1")
    assert report.outcome is Outcome.CORRECT, report.reason
    assert [graph.shape for graph in report.graphs] == list(shapes)
    assert [graph.output_shapes for graph in report.graphs] == [((64, 128),), ((1, 1),)]


@pytest.mark.parametrize(
    ("reference", "outcome", "said"),
    [
        ("def scale(x, w):\n    return x * w.item()\n", Outcome.HOST_READ, ""),
        ("def scale(x, w):\n    while True:\n        pass\n", Outcome.TRACE_TIMEOUT, TOO_LONG),
        ("def scale(x, w:\n", Outcome.SYNTAX_ERROR, "does not parse"),
    ],
)
def test_references_that_cannot_be_exported(reference, outcome, said):
    deadline_s = 3.0 if outcome is Outcome.TRACE_TIMEOUT else 60.0
    report = trace_job.trace(job(None, operator(reference=reference), deadline_s=deadline_s), "worker-1")
    assert says(report.reason, said)
    assert report.graphs == ()
    assert report.outcome is outcome or outcome is Outcome.HOST_READ
    assert report.outcome is not Outcome.CORRECT


def test_stages_say_where_it_ended():
    assert rogue("unclosed_bracket").stage is Stage.PARSE
    assert rogue("raises").stage is Stage.TRACE
    assert rogue("undefined_name").stage is Stage.COMPILE
    assert rogue("reads_the_clock").stage is Stage.ASSEMBLE


def test_plans_that_were_traced_elsewhere_are_judged_by_the_same_rules() -> None:
    order = job(candidate())
    (known,) = trace_job.trace(order, "w").variants
    again = order.model_copy(update={"source": None, "bundle": known.bundle})
    report = trace_job.trace(again, "w")
    assert report.variants == (known,) and report.graphs == ()
    (digest,) = known.bundle.kernels
    forged = known.bundle.model_copy(update={"cubins": {digest: "0" * 64}})
    (found,) = trace_job.trace(again.model_copy(update={"bundle": forged}), "w").variants
    assert found.bundle.cubins == known.bundle.cubins, "machine code is nobody's word"
    clocked = known.bundle.kernels[digest]
    clocked = clocked.model_copy(
        update={"assembly": clocked.assembly.replace("ret;", "mov.u64 %rd1, %clock64;\n\tret;", 1)}
    )
    launches = tuple(
        plan.model_copy(
            update={
                "steps": tuple(
                    step.model_copy(update={"kernel": clocked.digest}) if step.op == "launch" else step
                    for step in plan.steps
                )
            }
        )
        for plan in known.bundle.plans
    )
    rogue = known.bundle.model_copy(
        update={"kernels": {clocked.digest: clocked}, "plans": launches, "cubins": {clocked.digest: "0" * 64}}
    )
    report = trace_job.trace(again.model_copy(update={"bundle": rogue}), "w")
    assert (report.outcome, report.stage) == (Outcome.PLAN_REJECTED, Stage.ASSEMBLE)
    elsewhere = again.model_copy(update={"shapes": order.shapes[:1] + order.shapes[:1]})
    report = trace_job.trace(elsewhere, "w")
    assert (report.outcome, report.stage) == (Outcome.PLAN_REJECTED, Stage.TRACE)
    assert "not those of the job" in report.reason


GRADED = operator(
    inputs=[
        {"name": "x", "shape": ["M", "N"], "dtype": "float32"},
        {"name": "w", "shape": ["N"], "dtype": "float32", "gradient": False},
    ],
    outputs=[{"name": "y", "dtype": "float32", "shape": ["M", "N"]}],
    backward=True,
)
BACKWARD = """

def scale_backward(grad_y, x, w, y):
    grad_x = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](grad_y, w, grad_x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return grad_x
"""


def test_a_plan_with_gradients_goes_on_behind_the_outputs() -> None:
    report = trace_job.trace(job(candidate() + BACKWARD, GRADED), "tester")
    assert report.outcome is Outcome.CORRECT, report.reason
    (plan,) = report.variants[0].bundle.plans
    assert [buffer.input for buffer in plan.buffers[:3]] == [0, 1, 2]
    assert len(plan.launches) == len(plan.outputs) == 2
    missing = trace_job.trace(job(candidate(), GRADED), "tester")
    assert (missing.outcome, missing.reason) == ("syntax_error", "defines no function 'scale_backward'")
    fewer = trace_job.trace(job(candidate() + BACKWARD.replace("return grad_x", "return ()"), GRADED), "tester")
    assert fewer.outcome is Outcome.WRONG_OUTPUT_TYPE and "1: grad_x" in fewer.reason


def test_a_finalists_trace_brings_the_reference_without_its_gate() -> None:
    report = trace_job.trace(job(candidate(), references=True), "tester")
    assert report.outcome is Outcome.CORRECT and report.gate is None
    assert [graph.shape for graph in report.graphs] == [plan.shape for plan in report.variants[0].bundle.plans]
    assert trace_job.trace(job(candidate()), "tester").graphs == ()
    assert trace_job.trace(job("def scale(", references=True), "tester").graphs == ()
    broken = operator(reference="def scale(x, w):\n    return x.nonzero()\n")
    lost = trace_job.trace(job(candidate(), broken, references=True), "tester")
    assert (lost.outcome, lost.graphs) == ("worker_lost", ())
