import pytest
from triton.backends.compiler import BaseBackend
from triton.compiler.compiler import ASTSource

from tests.workers.tracer.jobs import HEADER, candidate, traced
from workers.protocol import Outcome, Stage
from workers.targets import TARGETS
from workers.tracer.compiler import Compiler, rehearse
from workers.tracer.fake_device import gpu_target
from workers.tracer.refusal import TraceRefused
from workers.tracer.source import load, parse

TILES = """
import triton
import triton.language as tl

@triton.jit
def tiles_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    cols, rows = tl.arange(0, 64), tl.arange(0, 128)
    total = tl.zeros((128, 128), tl.float32)
    for step in range(0, n_cols, 64):
        x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :] + step)
        w = tl.load(w_ptr + cols[:, None] * 128 + rows[None, :] + step * 128)
        total = tl.dot(x, w, total)
    tl.store(y_ptr + rows[:, None] * 128 + rows[None, :], total)
"""
"""Keeps tiles of 64 KiB for each stage beyond the first."""


def compiled(text=HEADER, target="sm_90", name="scale_kernel", **options):
    """The kernel of a candidate's text, compiled in this process."""
    function = getattr(load(parse(text)), name)
    signature = {"x_ptr": "*fp32", "w_ptr": "*fp32", "y_ptr": "*fp32", "n_cols": "i32", "BLOCK": "constexpr"}
    attributes = {(index,): BaseBackend.parse_attr("D") for index in range(4)}
    compiler = Compiler(TARGETS[target])
    source = ASTSource(function, signature, {(4,): 1024}, attributes)
    return compiler.compile(source, gpu_target(TARGETS[target]), options), compiler


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_compiles_to_text_under_one_name(target):
    made, _ = compiled(target=target, num_warps=8)
    kernel = made.kernel
    entry = ".visible .entry kernel(" if target.startswith("sm") else ".amdhsa_kernel kernel"
    assert entry in kernel.assembly
    assert kernel.language == ("ptx" if target.startswith("sm") else "amdgcn")
    assert (kernel.target, kernel.num_warps, made.digest) == (target, 8, kernel.digest)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_options_that_decide_results_are_set_and_not_inherited(target):
    by_default = compiled(target=target)[0].digest
    assert compiled(target=target, enable_fp_fusion=True)[0].digest == by_default
    other = "ieee" if target == "sm_90" else "tf32"
    assert compiled(target=target, default_dot_input_precision=other)[0].digest == by_default


def test_each_target_has_its_own_limit_of_shared_memory():
    fits = {}
    for target in ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_103", "sm_120", "sm_121"):
        try:
            needed = compiled(TILES, target, "tiles_kernel", num_stages=3)[0].kernel.shared_bytes
            fits[target] = needed <= TARGETS[target].shared_block_bytes
        except TraceRefused as refused:
            assert f"of the {TARGETS[target].shared_block_bytes} that {target} has" in refused.reason
            fits[target] = False
    small = {"sm_86", "sm_89", "sm_120", "sm_121"}
    assert fits == {target: target not in small for target in fits}


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_names_comments_and_lines_are_no_part_of_the_text(target):
    renamed = "# A comment.\n\n" + HEADER.replace("scale_kernel", "another_name").replace(
        "    row =", "    # why\n    row ="
    )
    assert compiled(renamed, target, "another_name")[0].digest == compiled(HEADER, target)[0].digest
    assert ".loc" not in compiled(HEADER, target)[0].kernel.assembly


def test_a_name_of_the_candidate_s_own_does_not_count():
    named = HEADER.replace("@triton.jit", "@triton.jit(repr=lambda _: 'unlike_any_other')")
    assert compiled(named)[0].digest == compiled(HEADER)[0].digest


def test_time_is_accounted_for():
    assert compiled()[1].spent_s > 0


def error(source):
    reply = traced(source)
    assert (reply.outcome, reply.stage) == (Outcome.COMPILE_ERROR, Stage.COMPILE), reply.reason
    return reply.reason, reply.line


BROKEN = {
    "undefined name": ("x * w, mask", "x * weight, mask", "NameError: weight is not defined", 13),
    "no power of two": ("tl.arange(0, BLOCK)", "tl.arange(0, 100)", "power of 2", 9),
    "type": ("x * w, mask", "tl.dot(x, w), mask", "in `tl.store", 13),
    "shapes": ("x * w, mask", "x * tl.arange(0, 32), mask", "in `tl.store", 13),
    "run-time range": ("tl.arange(0, BLOCK)", "tl.arange(0, n_cols)", "constexpr", 9),
    "python": ("cols < n_cols", "[c for c in cols]", "in `mask", 10),
    "static assert": ("cols < n_cols", "cols < n_cols\n    tl.static_assert(BLOCK == 3, 'not three')", "not three", 11),
}


@pytest.mark.parametrize(("old", "new", "said", "line"), BROKEN.values(), ids=BROKEN)
def test_errors_are_told_at_the_candidate_s_line(old, new, said, line):
    reason, at = error(candidate().replace(old, new))
    assert said in reason
    assert at == line


def test_errors_in_a_nested_function_are_told_there():
    nested = "@triton.jit\ndef double(x):\n    twice = 2\n    return x * thrice\n\n\n@triton.jit\ndef scale_kernel"
    source = candidate().replace("@triton.jit\ndef scale_kernel", nested).replace("x * w, mask", "double(x) * w, mask")
    reason, line = error(source)
    assert "thrice is not defined" in reason
    assert line == 9


def test_what_is_wrong_with_a_function_that_may_not_be_inlined_is_told_without_a_line():
    apart = "@triton.jit(noinline=True)\ndef double(x):\n    return x * 2\n\n\n@triton.jit\ndef scale_kernel"
    source = candidate().replace("@triton.jit\ndef scale_kernel", apart).replace("x * w, mask", "double(x) * w, mask")
    reason, _ = error(source)
    assert "noinline, but was called with non-scalar argument" in reason


@pytest.mark.parametrize("options", ["num_warps=3", "num_warps=64", "num_warps=0"])
def test_options_that_the_target_does_not_take(options):
    reason, _ = error(candidate().replace(", BLOCK=", f", {options}, BLOCK="))
    assert "num_warps" in reason or "warps" in reason


def test_who_asks_for_clusters_is_told_what_they_are_not_for():
    summed = candidate().replace("x * w, mask", "x * w / tl.sum(x, 0), mask").replace(", BLOCK=", ", {}, BLOCK=")
    reason, line = error(summed.replace("{}", "num_ctas=2"))
    assert "rank >= 2" in reason and "use num_ctas=1" in reason
    assert line == 6
    assert traced(summed.replace("{}", "num_ctas=1")).outcome is Outcome.CORRECT
    alone, _ = error(candidate().replace("x * w, mask", "x + wrong, mask").replace(", BLOCK=", ", num_ctas=2, BLOCK="))
    assert "clusters" not in alone


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "gfx942"])
def test_a_kernel_is_compiled_for_the_target(name: str) -> None:
    kernel = rehearse(TARGETS[name]).kernel
    assert kernel.target == name and "kernel" in kernel.assembly
