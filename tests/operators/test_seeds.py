import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.operators.catalogue import load_catalogue, load_operator
from service.operators.shapes import all_shapes
from workers.protocol import Outcome, ShapeRole, TraceJob
from workers.targets import TARGETS
from workers.trace_job import trace

ROOT = Path(__file__).parents[2]
OWN = ROOT / "examples" / "my_op"
OPERATORS = {**load_catalogue(), "my_op": load_operator(OWN)}
SEEDS = [
    pytest.param(name, source, id=f"{name}-{number}" if number else name)
    for name, operator in OPERATORS.items()
    for number, source in enumerate(operator.seeds)
]
YARDSTICKS = [each for each in SEEDS if OPERATORS[each.values[0]].seeds[0] == each.values[1]]
"""The first seed of each operator, which all others are held against: it must run wherever we compile for. Later ones
may ask for more shared memory than older cards have."""
BEFORE_FLOAT8 = {"sm_80", "sm_86", "sm_87"}
"""Targets that Triton has no such conversions for, and says so."""
JUDGED = {"quantize_fp8", "gate_up_swiglu", "lm_head_sparse", "w4a16_matmul", "ternary_matmul", "linear_cross_entropy"}
JUDGED |= {"qk_norm_rope", "sigmoid_attention", "sliding_window_attention", "decode_attention", "paged_decode"}
"""Operators whose seeds run on our interpreter alone: Triton's own, a second opinion on the others, takes minutes for
their products and many programs, and is wrong on results in bfloat16 and float8."""
LONG = {"entmax15", "depthwise_conv_large", "rational_activation_backward"}
LONG |= {"layernorm_backward", "rmsnorm_backward", "moe_swiglu"}
"""Operators whose seeds take Triton's interpreter longer than all others together: for the long suites."""
PLAIN = sorted(set(load_catalogue()) - JUDGED - LONG)
PARTS = 2
"""Processes that execute them, one a core."""
ALLOWED = {"torch", "triton", "triton.language", "math"}
GLUON = "triton.experimental.gluon"
"""Seeds in Gluon are for Hopper cards, and no interpreter executes them: cards judge them (`tests/gpu`)."""
LAUNCH_OPTIONS = {"num_warps", "num_stages", "maxnreg"}


def launches(module):
    return [node for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)]


def traced(operator, source, shapes, target):
    job = TraceJob(
        id="job",
        search="search",
        candidate="seed",
        source=source,
        operator=operator,
        shapes=shapes,
        target=target,
        deadline_s=240,
    )
    return trace(job, "worker")


def is_tile(node):
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Call) and "next_power_of_2" in ast.unparse(node))


def test_every_operator_has_a_seed():
    assert [name for name, operator in OPERATORS.items() if not operator.seeds] == []


def test_every_file_among_seeds_is_a_seed():
    written = {(path.parts[-3], path.read_text()) for path in (ROOT / "operators").glob("*/seeds/*.py")}
    assert {(name, source) for name, operator in load_catalogue().items() for source in operator.seeds} == written


@pytest.mark.parametrize(
    "names",
    [*([*PLAIN, str(OWN)][part::PARTS] for part in range(PARTS)), pytest.param(sorted(LONG), marks=pytest.mark.slow)],
    ids=lambda names: Path(names[0]).name,
)
def test_seeds_agree_with_their_references(names: list[str]):
    command = [sys.executable, str(Path(__file__).with_name("interpreted.py")), *names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr
    errors = json.loads(run.stdout)
    assert len(errors) == len(names)
    assert {name: error for name, error in errors.items() if error == "masks" or error > 2e-6} == {}


@pytest.mark.parametrize(("name", "source"), SEEDS)
def test_seed_traces_at_its_benchmark_shapes_and_the_smallest(name, source):
    shapes = all_shapes(OPERATORS[name], seed=0)
    chosen = (shapes[0], *(shape for shape in shapes if shape.role is ShapeRole.BENCHMARK))
    report = traced(OPERATORS[name], source, chosen, "sm_90")
    assert (report.outcome, report.reason) == (Outcome.CORRECT, "")
    (variant,) = report.variants
    assert [plan.shape for plan in variant.bundle.plans] == list(chosen)
    assert all(plan.launches for plan in variant.bundle.plans)
    assert len(variant.readings) == len(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "source"), YARDSTICKS)
def test_seed_traces_for_every_target_at_every_shape(name, source, target):
    report = traced(OPERATORS[name], source, all_shapes(OPERATORS[name], seed=0), target)
    if target in BEFORE_FLOAT8 and any(item.dtype == "float8_e4m3fn" for item in OPERATORS[name].outputs):
        assert report.outcome is Outcome.COMPILE_ERROR and "fp8e4nv" in report.reason
        return
    assert (report.outcome, report.reason) == (Outcome.CORRECT, "")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "source"), [each for each in SEEDS if each.values[0] in JUDGED])
def test_seed_is_correct_on_a_predicted_device(name, source, tmp_path):
    seed = tmp_path / "seed.py"
    seed.write_text(source)
    found = json.loads(CliRunner().invoke(app, ["judge", name, str(seed), "--json"]).stdout)
    assert (found["outcome"], found["reason"]) == ("correct", "")


SLIPS = {
    "matmul": ("a_ptr + rows", "a_ptr + tl.where(start, tl.arange(0, BLOCK_M), rows)", "rows of a second tile"),
    "attention": ("head_dim**-0.5", "128**-0.5", "one head dimension's scale"),
    "depthwise_conv_large": ("- size // 2", "- 15", "one kernel's padding"),
    "ternary_matmul": ("* tl.load(w_scale_ptr)", "* tl.load(w_scale_ptr) * 1.0025", "a factor"),
    "lm_head_sparse": ("entries, y, mask", "entries, y * 1.0025, mask", "a factor, where rows are texts"),
    "quantize_fp8": ("448e-12", "448e-16", "what the scale is kept above"),
}
"""Slips in the first seeds that show at one kind of shape or draw only: what becomes what, and what it gets wrong."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_refused_on_a_predicted_device(name, tmp_path):
    old, new, _ = SLIPS[name]
    source = OPERATORS[name].seeds[0]
    assert old in source
    slipped = tmp_path / "slipped.py"
    slipped.write_text(source.replace(old, new))
    found = json.loads(CliRunner().invoke(app, ["judge", name, str(slipped), "--json"]).stdout)
    assert found["outcome"] in ("wrong_result", "precision")


@pytest.mark.parametrize(("name", "source"), SEEDS)
def test_seed_imports_what_a_candidate_may(name, source):
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        assert not isinstance(node, ast.ImportFrom)
    assert {name for name in imported if not name.startswith(GLUON)} <= ALLOWED


@pytest.mark.parametrize(("name", "source"), SEEDS)
def test_launches_leave_their_parameters_open_to_tuning(name, source):
    """Emitters read tile sizes and launch options off the launch: literals, or the next power of two."""
    module = ast.parse(source)
    constexprs = {
        argument.arg
        for node in module.body
        if isinstance(node, ast.FunctionDef)
        for argument in node.args.args
        if argument.annotation is not None
    }
    assert launches(module)
    for launch in launches(module):
        keywords = {item.arg: item.value for item in launch.keywords}
        assert isinstance(keywords["num_warps"], ast.Constant)
        tiles = {name: value for name, value in keywords.items() if name.startswith("BLOCK")}
        assert tiles
        assert set(keywords) - LAUNCH_OPTIONS <= constexprs
        assert all(is_tile(value) for value in tiles.values() if not isinstance(value, ast.Name))
