"""The device `model`, end to end: traced for real, executed in the jail, checked, predicted."""

from pathlib import Path

import pytest

from service.operators.catalogue import load_operator
from tests.traces import trace_once
from tests.workers.devices.kernels import ATOMIC, AUTOTUNED, PLAIN, PRODUCT, RACE, SUM, TUPLES, changed, job_for, traced
from workers.devices.model import ModelDevice
from workers.errors import BadMessage, ToolMissing
from workers.predict import START_US
from workers.protocol import Device, FinalJob, InputRef, MeasureJob, Node, NodeRef, Shape, ShapeRole, TraceJob


@pytest.fixture(scope="module")
def device():
    bench = ModelDevice(Device.parse("model:sm_90"), "tester")
    yield bench
    bench.close()


def test_a_correct_kernel_gets_predicted_times(device):
    report = device.measure(job_for(PLAIN))
    assert (report.outcome, report.reason, report.provenance) == ("correct", "", "predicted")
    assert (report.trust, report.grounds.replayed, report.grounds.seconded) == ("B", True, False), "no second card"
    assert [check.verdict for check in report.checks] == ["passed"] * len(report.checks)
    (shape,) = report.shapes
    assert shape.shape == "M=2048,N=1024"
    assert 0 < shape.low_us == shape.mid_us == shape.high_us < 1000
    assert shape.readings.bytes_moved == shape.readings.bytes_required == 2048 * 1024 * 4
    assert set(report.stages_s) == {"interpret", "check", "assemble", "predict"}
    assert {"torch", "triton", "ptxas", "kernelreef"} <= set(report.versions)
    assert report.bundle == job_for(PLAIN).bundle.identity


def test_plans_of_another_compiler_are_not_interpreted_and_say_so(device):
    job = job_for(PLAIN)
    other = job.bundle.toolchain.model_copy(update={"triton": "3.99.0"})
    report = device.measure(job.model_copy(update={"bundle": job.bundle.model_copy(update={"toolchain": other})}))
    assert report.outcome == "not_interpretable"
    assert report.reason.startswith("compiled by Triton 3.99.0, and this worker interprets what Triton 3.")
    assert (report.versions["triton"], report.versions["host triton"]) == ("3.99.0", device.versions()["triton"])


def test_a_reference_that_fails_on_drawn_inputs_is_told_and_ends_no_worker(device):
    job = job_for(PLAIN)
    far = Node(op="aten.select.int", args=(InputRef(input=0), 0, 10**6))
    graphs = tuple(graph.model_copy(update={"nodes": (far,), "outputs": (NodeRef(node=0),)}) for graph in job.graphs)
    report = device.measure(job.model_copy(update={"graphs": graphs}))
    assert report.outcome == "trace_crashed"
    assert report.reason.startswith("the reference fails on drawn inputs: aten.select.int raised IndexError: ")
    assert "`low` and `high`" in report.reason


GREEDY = (
    "x)\n    kernel[",
    "x)\n    if x.shape[1] > 1:\n        torch.empty(8 * 2**20, dtype=torch.uint8, device=x.device)\n    kernel[",
)
"""Makes every plan but the smallest large."""
FOLDED = """    far = tl.where(n_cols > 0, float("inf"), 1.0)
    if (far - far).to(tl.int32, bitcast=True) < 0:
        tl.store("""
"""Not taken where NaN has no sign, as the compiler's has none."""
FAULTY = {
    "no mask": (
        changed("cols, mask=mask, other=float(\"-inf\")).to", "cols).to"),
        "out_of_bounds",
        "'x', which holds",
        11,
    ),
    "no maximum": (changed("x - tl.max(x, axis=0)", "x"), "wrong_result", "inputs", None),
    "padding counted": (changed('other=float("-inf")', "other=0.0"), "wrong_result", "expected", None),
    "too large by 0.1%": (changed("tl.sum(e, axis=0)", "tl.sum(e, axis=0) * 1.001"), "precision", "%", None),
    "last columns left out": (
        changed("y, mask=mask", "y, mask=cols < n_cols - (n_cols > 1)"),
        "wrong_result",
        "never written",
        None,
    ),
    "input overwritten": (
        changed("tl.store(y_ptr", "tl.store(x_ptr + row * n_cols + cols, y, mask=mask)\n    tl.store(y_ptr"),
        "input_mutated",
        "'x'",
        None,
    ),
    "nan dropped": (
        changed("    x = x - tl", "    x = tl.where(x == x, x, 0.0)\n    x = x - tl"),
        "wrong_result",
        "NaN",
        None,
    ),
    "memory that nobody needs": (
        changed(*GREEDY).replace("e / tl.sum", "1 / tl.sum"),
        "wrong_result",
        "expected",
        None,
    ),
    "of which the compiler leaves nothing": (
        changed("    tl.store(", FOLDED),
        "not_interpretable",
        "at M=2048,N=1024 no kernel that gets output 0 has an instruction that writes to global memory",
        None,
    ),
    "a branch that rests on the bits of a NaN": (
        changed("    tl.store(", "    if tl.log(0.0 - n_cols).to(tl.int32, bitcast=True) < 0:\n        tl.store("),
        "wrong_result",
        "output 'y' is",
        None,
    ),
    "inline assembly": (
        changed("tl.exp(x)", "tl.inline_asm_elementwise('mov.b32 $0, $1;', '=f,f', [x], tl.float32, True, 1)"),
        "not_interpretable",
        "inline assembly `mov.b32 $0, $1;`",
        13,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTY)
def test_faulty_kernels_get_their_outcome_and_a_reason(device, fault):
    source, outcome, hint, line = FAULTY[fault]
    report = device.measure(job_for(source))
    assert (report.outcome, report.stage, report.line) == (outcome, "check", line), report
    assert hint in report.reason
    assert report.shapes == ()


def test_one_instruction_of_inline_assembly_is_interpreted(device):
    power = "tl.inline_asm_elementwise('ex2.approx.f32 $0, $1;', '=f,f', [{}x], tl.float32, True, 1)"
    right, wrong = (changed("tl.exp(x)", power.format(factor)) for factor in ("1.4426950408889634 * ", ""))
    assert device.measure(job_for(right)).outcome == "correct"
    assert device.measure(job_for(wrong)).outcome == "wrong_result"


@pytest.mark.parametrize(("precision", "outcome"), [("ieee", "correct"), ("tf32x3", "correct"), ("tf32", "precision")])
def test_a_float32_product_is_judged_by_what_it_computes(device, precision, outcome):
    """The second and the third are the same instructions, and only one of them is as good as float32."""
    report = device.measure(job_for(PRODUCT.replace("ieee", precision), "gram"))
    assert (report.outcome, report.stage) == (outcome, None if outcome == "correct" else "check"), report
    units = [shape.readings.tensor_core for shape in report.shapes]
    assert units == {"ieee": ["none"], "tf32x3": ["mma"], "tf32": []}[precision]


def test_what_a_kernel_does_on_zeros_alone_is_no_prediction(device):
    lazy = PRODUCT.replace(
        "    rows = tl", "    if (tl.load(x_ptr) == 0.0) & (n_cols == 1024):\n        return\n    rows = tl", 1
    )
    honest, found = (device.measure(job_for(source, "gram")) for source in (PRODUCT, lazy))
    assert (honest.outcome, found.outcome) == ("correct", "correct")
    assert found.shapes[0].readings.bytes_moved > honest.shapes[0].readings.bytes_moved
    assert found.shapes[0].mid_us == device.measure(job_for(lazy, "gram")).shapes[0].mid_us, "not drawn anew"


@pytest.mark.parametrize(
    "what",
    [
        "tl.abs(y_ptr.to(tl.int64) - x_ptr.to(tl.int64)) >= 2147483648",
        "tl.abs(y_ptr.to(tl.int64) - x_ptr.to(tl.int64)) < 2147483648",
        "(old == -1) | (old == 0) | (old == 0x3F3F)",
    ],
)
def test_nobody_rests_on_where_memory_lies_or_what_it_holds_before(device, what):
    old = "    old = tl.load((y_ptr + row * n_cols).to(tl.pointer_type(tl.int16)))\n" if "old" in what else ""
    rests = changed("    y = e / tl.sum(e, axis=0)\n", f"{old}    y = tl.where({what}, e / tl.sum(e, axis=0), 0.0)\n")
    assert device.measure(job_for(rests)).outcome == "wrong_result"


def test_every_autotune_configuration_is_judged(device):
    variants = traced(AUTOTUNED).variants
    assert len(variants) == 2
    for variant in variants:
        assert device.measure(job_for(AUTOTUNED, variant=variant.index)).outcome == "correct"


def test_accumulators_start_from_the_plans_fills(device):
    assert device.measure(job_for(SUM.format(update=ATOMIC, factory="zeros"), "column_sum")).outcome == "correct"
    report = device.measure(job_for(SUM.format(update=ATOMIC, factory="empty"), "column_sum"))
    assert report.outcome == "wrong_result", "memory that is not cleared is poisoned"


def test_programs_that_overwrite_each_other_are_wrong(device):
    report = device.measure(job_for(SUM.format(update=RACE, factory="zeros"), "column_sum"))
    assert report.outcome == "wrong_result"


def test_tuples_are_arguments(device):
    report = device.measure(job_for(TUPLES))
    assert report.outcome == "correct", report.reason
    wrong = device.measure(job_for(TUPLES.replace("* sizes[1]", "* 1.1 * sizes[1]")))
    assert wrong.outcome in ("wrong_result", "precision")


def test_an_endless_loop_costs_its_deadline(device):
    endless = changed(
        "    e = tl.exp(x)\n", "    e = tl.exp(x)\n    while tl.sum(e, axis=0) > -1.0:\n        e += 1.0\n"
    )
    report = device.measure(job_for(endless, deadline_s=1.5))
    assert report.outcome == "not_interpretable"
    assert "did not end within 1.5 s" in report.reason


def test_traffic_is_sampled_at_the_benchmark_shape(device):
    twice = changed(
        "    e = tl.exp(x)\n",
        "    e = tl.exp(x) + tl.where(cols < 0, tl.load(x_ptr + row * n_cols + cols, mask=mask), 0.0)\n",
    )
    plain, double = (device.measure(job_for(source)).shapes[0] for source in (PLAIN, twice))
    assert double.readings.bytes_moved == plain.readings.bytes_moved * 3 // 2
    assert double.mid_us >= plain.mid_us
    (launch,) = plain.readings.by_launch
    assert launch.bytes_moved == plain.readings.bytes_moved
    assert launch.operations["special"] >= plain.readings.bytes_moved / 2 / 2  # An exponential for each bfloat16.


def test_a_loop_that_may_wait_hides_no_products(device):
    waiting = PRODUCT.replace("    rows = tl", "    turn = 0\n    while turn < 1:\n        turn += 1\n    rows = tl", 1)
    plain, found = (device.measure(job_for(source, "gram")).shapes[0] for source in (PRODUCT, waiting))
    assert found.readings.bytes_moved is None, "not sampled"
    assert 0.8 < found.mid_us / plain.mid_us < 2


def test_programs_that_do_nothing_hide_none_that_do(device):
    honest = device.measure(job_for(PRODUCT, "gram")).shapes[0].mid_us
    idle = (
        PRODUCT.replace("tl.program_id(1) * BLOCK +", "(tl.program_id(1) // 2) * BLOCK +")
        .replace("    total = tl.z", "    if tl.program_id(1) % 2 == 0:\n        return\n    total = tl.z")
        .replace("(tiles, tiles)", "(tiles, 2 * tiles)")
    )
    report = device.measure(job_for(idle, "gram"))
    assert report.outcome == "correct"
    assert 0.7 < report.shapes[0].mid_us / honest < 1.5


@pytest.mark.parametrize("ready", ["torch.ones", "raise_flags"])
def test_what_an_earlier_step_wrote_is_there(device, ready):
    """Programs that do nothing where they find a zero, which nobody has written in a sample."""
    flags = "    flags = torch.ones(x.shape[0], 4096, dtype=torch.float32, device=x.device)\n"
    if ready == "raise_flags":
        flags = flags.replace("ones", "empty") + "    raise_flags[(x.shape[0],)](flags)\n"
    lazy = (
        PRODUCT.replace("kernel(x_ptr, y_ptr,", "kernel(x_ptr, y_ptr, flag_ptr,")
        .replace(
            "    rows = tl",
            "    if tl.load(flag_ptr + tl.program_id(0) * 4096 * BLOCK) == 0.0:\n        return\n    rows = tl",
        )
        .replace("(x, y, ", "(x, y, flags, ")
        .replace("    tiles =", flags + "    tiles =")
        .replace(
            "@triton.jit\n",
            "@triton.jit\ndef raise_flags(flag_ptr):\n"
            "    tl.store(flag_ptr + tl.program_id(0) * 4096 + tl.arange(0, 4096), 1.0)\n\n\n@triton.jit\n",
        )
    )
    honest, found = (device.measure(job_for(source, "gram")) for source in (PRODUCT, lazy))
    assert found.outcome == "correct", found.reason
    assert found.shapes[0].readings.by_launch[-1].operations["matrix"] == pytest.approx(
        honest.shapes[0].readings.by_launch[0].operations["matrix"], rel=0.2
    )


def test_fills_are_charged_by_their_bytes(device):
    plain, filled = (
        device.measure(job_for(source)).shapes[0].mid_us
        for source in (PLAIN, changed("torch.empty_like", "torch.zeros_like"))
    )
    assert filled > plain + START_US + 2048 * 1024 * 2 / 4.8e6 * 0.9


def test_other_targets_are_judged_the_same(device):
    amd = ModelDevice(Device.parse("model:gfx942"), "tester")
    report = amd.measure(job_for(PLAIN, target="gfx942"))
    assert (report.outcome, report.device.name) == ("correct", "model:gfx942")
    assert report.shapes[0].mid_us > 0


def test_machine_code_that_differs_is_refused(device):
    job = job_for(PLAIN)
    forged = job.bundle.model_copy(update={"cubins": dict.fromkeys(job.bundle.cubins, "0" * 64)})
    report = device.measure(job.model_copy(update={"bundle": forged}))
    assert (report.outcome, report.stage) == ("plan_rejected", "assemble")
    assert "with the same ptxas" in report.reason


def test_shapes_beyond_the_interpreter_are_not_judged(device):
    job = job_for(PLAIN)
    large = tuple(plan for plan in job.bundle.plans if plan.shape.role == "benchmark")
    report = device.measure(job.model_copy(update={"bundle": job.bundle.model_copy(update={"plans": large})}))
    assert report.outcome == "not_interpretable"
    assert "too large" in report.reason


def test_a_job_it_cannot_do_is_refused(device):
    with pytest.raises(BadMessage, match="needs a source"):
        device.measure(job_for(PLAIN).model_copy(update={"source": None}))
    with pytest.raises(BadMessage, match="sm_90"):
        device.measure(job_for(PLAIN, target="gfx942"))
    with pytest.raises(ToolMissing, match="sm_1"):
        ModelDevice(Device.parse("model:sm_1"), "tester")


def test_a_verdict_is_repeated_on_the_inputs_that_its_report_reveals(device):
    first = device.measure(job_for(PLAIN))
    other, again = device.measure(job_for(PLAIN)), device.measure(job_for(PLAIN, seed=first.seed))
    assert other.seed != first.seed == again.seed and len(bytes.fromhex(first.seed)) == 32
    assert again.checks == first.checks != other.checks


def final_job(source):
    job = job_for(source)
    drawn = [plan for plan in job.bundle.plans if plan.shape.role is not ShapeRole.BENCHMARK]
    random = [
        plan.model_copy(update={"shape": plan.shape.model_copy(update={"role": ShapeRole.RANDOM})}) for plan in drawn
    ]
    values = job.model_dump(include={"id", "search", "candidate", "variant", "operator", "graphs", "device", "source"})
    bundle = job.bundle.model_copy(update={"plans": (*job.bundle.benchmarks, *random)})
    return FinalJob.model_validate({**values, "finalist": job.bundle.identity, "bundle": bundle})


def test_a_finalist_is_run_on_random_shapes_and_the_rest_is_said_to_be_missing(device):
    job = final_job(PLAIN).model_copy(update={"unreached": "an interpreter would take hours"})
    report = device.examine(job)
    assert (report.kind, report.outcome, report.bundle) == ("final", "correct", job.finalist)
    shapes, *tools, far = report.checks
    assert (shapes.name, shapes.verdict) == ("random_shapes", "passed") and shapes.detail.startswith("3 of 3 shapes")
    assert [check.verdict for check in tools] == ["skipped"] * 3
    assert (far.name, far.verdict, far.detail) == ("far_indices", "skipped", "an interpreter would take hours")


def test_a_finalist_is_run_on_random_shapes_whatever_memory_it_takes_besides(device):
    report = device.examine(final_job(changed(*GREEDY)))
    assert report.outcome == "correct" and report.checks[0].detail.startswith("3 of 3 shapes")


def test_a_finalist_that_is_wrong_somewhere_fails(device):
    old, new = "y, mask=mask", "y, mask=cols < n_cols - (n_cols > 1)"
    report = device.examine(final_job(changed(old, new)))
    assert (report.outcome, report.stage) == ("wrong_result", "final")
    assert report.reason.startswith("at a random shape: ") and report.checks[0].verdict == "failed"


EXAMPLE = load_operator(Path(__file__).parents[3] / "examples" / "seeded_dropout")


@pytest.mark.parametrize(
    ("seed", "outcome"),
    [
        (EXAMPLE.seeds[0], "correct"),
        (EXAMPLE.seeds[0].replace("tl.load(seed_ptr)", "tl.load(seed_ptr) + 1"), "wrong_result"),
        (EXAMPLE.seeds[0].replace("tl.load(seed_ptr)", "0"), "wrong_result"),
        (EXAMPLE.seeds[0].replace("x * 2.0", "x"), "wrong_result"),
    ],
)
def test_random_numbers_of_a_seed_are_compared_as_numbers(device, seed: str, outcome: str):
    shapes = tuple(Shape(dims={"M": rows, "N": cols}) for rows, cols in ((3, 5), (17, 129)))
    job = TraceJob(id="t", search="s", operator=EXAMPLE, shapes=shapes, target="sm_90", mutation_testing=False)
    told = trace_once(job.model_copy(update={"candidate": "c", "source": seed}))
    assert told.outcome == "correct", told.reason
    report = device.measure(
        MeasureJob(
            id="m",
            search="s",
            candidate="c",
            variant=0,
            bundle=told.variants[0].bundle,
            operator=EXAMPLE,
            graphs=trace_once(job).graphs,
            device=Device.parse("model:sm_90"),
            source=seed,
        )
    )
    assert report.outcome == outcome, report.reason
