import pytest

from tests.workers.tracer.jobs import ALLOCATE, LAUNCH, candidate, operator, shape, traced
from workers.protocol import Number, Outcome, Pointer

GRIDS = {
    "tuple": "(x.shape[0],)",
    "list": "[x.shape[0]]",
    "integer": "x.shape[0]",
    "three": "(x.shape[0], 1, 1)",
    "function": "lambda meta: (x.shape[0] * triton.cdiv(meta['n_cols'], meta['BLOCK']),)",
    "sizes": "x.shape[:1]",
}


def launch(source, of=None, **changes):
    reply = traced(source, of, **changes)
    assert reply.outcome is Outcome.CORRECT, reply.reason
    return reply.variants[0].plans[0].launches[0]


def refusal(source, **changes):
    reply = traced(source, **changes)
    return reply.outcome, reply.reason, reply.line


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_grids(grid):
    assert launch(candidate(ALLOCATE + LAUNCH.replace("(x.shape[0],)", grid, 1))).grid == (64, 1, 1)


def test_arguments_by_position_name_and_default():
    source = candidate(
        ALLOCATE + "scale_kernel[(64,)](x, w, n_cols=x.shape[1], y_ptr=y)\nreturn y\n",
    ).replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr = 128")
    step = launch(source)
    assert step.parameters == ("x_ptr", "w_ptr", "y_ptr", "n_cols")
    assert step.constants == {"BLOCK": 128}
    assert step.arguments[:3] == tuple(
        Pointer(buffer=buffer, offset_bytes=0, extent_bytes=extent, dtype="float32")
        for buffer, extent in ((0, 64 * 128 * 4), (1, 128 * 4), (2, 64 * 128 * 4))
    )
    assert step.arguments[3] == Number(type="i32", value=128)


def test_a_launch_tells_its_function_and_line():
    step = launch(candidate())
    assert (step.function, step.line) == ("scale_kernel", 18)


def test_modules_of_the_candidate_are_not_asked_for_its_kernels():
    autotuned = candidate().replace("@triton.jit", "@triton.autotune([triton.Config({})], key=[])\n@triton.jit")
    source = "import os\n" + autotuned.replace("BLOCK=triton", "BLOCK=len(os.environ) + triton")
    assert launch(source).function == "scale_kernel"


def test_one_and_none_are_constants_as_triton_makes_them():
    source = (
        candidate()
        .replace("n_cols, BLOCK", "n_cols, one, none, scale, BLOCK")
        .replace("], BLOCK", "], 1, None, 2.0, BLOCK")
    )
    step = launch(source)
    assert step.constants == {"one": 1, "none": None, "BLOCK": 128}
    assert step.parameters[-1] == "scale"
    assert step.arguments[-1] == Number(type="fp32", value=2.0)


def test_number_types():
    source = candidate().replace("n_cols, BLOCK", "n_cols, a, b, c, d: tl.int64, BLOCK")
    step = launch(source.replace("], BLOCK", "], 2**40, 2**63 + 2, True, 7, BLOCK"))
    assert [argument.type for argument in step.arguments[3:]] == ["i32", "i64", "u64", "u1", "i64"]


def test_numbers_that_json_lacks_survive_the_wire():
    source = candidate().replace("n_cols, BLOCK", "n_cols, low, HIGH: tl.constexpr, BLOCK")
    step = launch(source.replace("], BLOCK", "], float('-inf'), float('inf'), BLOCK"))
    assert step.arguments[-1] == Number(type="fp32", value=float("-inf"))
    assert step.constants["HIGH"] in (float("inf"), "Infinity")


def test_options_that_only_other_targets_have():
    body = ALLOCATE + LAUNCH.replace("BLOCK", "maxnreg=64, BLOCK")
    outcome, reason, _ = refusal(candidate(body), target="gfx942")
    assert outcome is Outcome.COMPILE_ERROR
    assert "maxnreg" in reason


def test_compile_time_values_of_every_kind():
    header = "import math\n\nKIND = tl.constexpr(3)\n\n\n@triton.jit\ndef double(x):\n    return 2 * x\n\n\n@triton.jit"
    source = candidate().replace("@triton.jit", header, 1)
    source = source.replace("BLOCK: tl.constexpr", ", ".join(f"{name}: tl.constexpr" for name in "ABCDEFGH"))
    source = source.replace(
        "BLOCK=triton.next_power_of_2(x.shape[1])",
        "A=KIND, B='relu', G='torch:float32', H='NaN', C=tl.float16, D=x.dtype, E=double, F=128",
    )
    source = source.replace("BLOCK", "F").replace("x * w, mask", "E(x) * w, mask")
    assert launch(source).constants == {
        "A": 3,
        "B": "relu",
        "C": "dtype:fp16",
        "D": "torch:float32",
        "E": "function:double",
        "F": 128,
        "G": "text:torch:float32",
        "H": "text:NaN",
    }


def test_launch_options_reach_the_kernel():
    options = "num_warps=8, num_stages=2, num_ctas=2, maxnreg=128, BLOCK"
    reply = traced(candidate(ALLOCATE + LAUNCH.replace("BLOCK", options)))
    (kernel,) = reply.kernels.values()
    assert (kernel.num_warps, kernel.num_stages, kernel.num_ctas, kernel.max_registers) == (8, 2, 2, 128)


def test_an_option_that_is_also_a_parameter_is_an_argument():
    source = candidate().replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, num_warps: tl.constexpr")
    step = launch(source.replace("BLOCK=", "num_warps=2, BLOCK="))
    assert step.constants["num_warps"] == 2


@pytest.mark.parametrize("option", ["launch_pdl", "launch_cooperative_grid", "stream", "anything"])
def test_other_options_are_refused_by_name(option):
    outcome, reason, line = refusal(candidate(ALLOCATE + LAUNCH.replace("BLOCK", f"{option}=True, BLOCK")))
    assert (outcome, line) == (Outcome.UNSUPPORTED_LAUNCH, 18)
    assert f"'{option}'" in reason
    assert "num_warps, num_stages, num_ctas, maxnreg" in reason


FUSED = candidate().replace("x * w", "x * w + x")


def test_products_and_sums_are_kept_apart_where_a_launch_says_so():
    apart, fused, plain = (
        traced(FUSED.replace("BLOCK=", f"{given}BLOCK="))
        for given in ("enable_fp_fusion=False, ", "enable_fp_fusion=True, ", "")
    )
    assert fused.kernels.keys() == plain.kernels.keys() != apart.kernels.keys()
    (kernel,), (other,) = apart.kernels.values(), fused.kernels.values()
    assert "fma." not in kernel.assembly and "fma." in other.assembly
    assert apart.variants[0].plans[0].launches[0].options == {"enable_fp_fusion": 0}


@pytest.mark.parametrize("option", ["launch_pdl", "launch_cooperative_grid"])
def test_an_option_that_is_off_is_as_if_it_were_not_given(option):
    plain, off = (candidate(ALLOCATE + LAUNCH.replace("BLOCK", given)) for given in ("BLOCK", f"{option}=False, BLOCK"))
    assert traced(off).kernels.keys() == traced(plain).kernels.keys()


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ("(1, 1, 1, 1)", "4 dimensions"),
        ("()", "0 dimensions"),
        ("(x.shape[0] / 2,)", "32.0"),
        ("(-1,)", "is -1"),
        ("(2**31,)", "2147483648"),
    ],
)
def test_grids_that_no_target_takes(grid, said):
    outcome, reason, _ = refusal(candidate(ALLOCATE + LAUNCH.replace("(x.shape[0],)", grid, 1)))
    assert outcome is Outcome.UNSUPPORTED_LAUNCH
    assert said in reason


def test_an_empty_grid_is_no_launch():
    extra = "scale_kernel[(0,)](x, w, y, x.shape[1], BLOCK=128)\n"
    assert len(traced(candidate(ALLOCATE + extra + LAUNCH)).variants[0].plans[0].launches) == 1


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("x.data_ptr()", "address"),
        ("()", "passes an empty tuple"),
        ("[64, 64]", "passes a list"),
        ("torch.max(torch.zeros(1, 2), 1)", "the class max"),
        ("(x, 'a')", "specialize"),
        ("'x'", "str"),
        ("torch.float32", "dtype"),
    ],
)
def test_arguments_that_a_plan_cannot_hold(argument, said):
    outcome, reason, _ = refusal(candidate(ALLOCATE + LAUNCH.replace("(x, w, y", f"({argument}, w, y")))
    assert outcome in (Outcome.UNSUPPORTED_LAUNCH, Outcome.TRACE_CRASHED, Outcome.COMPILE_ERROR)
    assert said in reason


TUPLES = """
import torch, triton
import triton.language as tl

@triton.jit
def scale_kernel(pointers, sizes, shape, SHAPE: tl.constexpr):
    places = tl.program_id(0) * SHAPE[0] + tl.arange(0, SHAPE[0])
    tl.store(pointers[1][0] + places, tl.load(pointers[0] + places) * sizes[1] * shape[0])

def scale(x, w):
    y = torch.empty_like(x)
    scale_kernel[(64,)]((x, (y, None)), (1, 2.0, 64), x.shape, SHAPE=(x.shape[1], (2, tl.float32)))
    return y
"""


def test_tuples_are_spread_over_the_parameters_of_the_kernel():
    step = launch(TUPLES)
    assert step.parameters == ("pointers.0", "pointers.1.0", "sizes.1", "sizes.2", "shape.0", "shape.1")
    assert [argument.buffer for argument in step.memory] == [0, 2]
    assert step.arguments[2] == Number(type="fp32", value=2.0)
    assert [argument.value for argument in step.arguments[3:]] == [64, 64, 128]
    assert step.constants == {
        "pointers.1.1": None, "sizes.0": 1, "SHAPE.0": 128, "SHAPE.1.0": 2, "SHAPE.1.1": "dtype:fp32",
    }  # fmt: skip


DESCRIBED = """
import torch, triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def copy_kernel(x_tiles, y_tiles):
    y_tiles.store([tl.program_id(0), 0], x_tiles.load([tl.program_id(0), 0]))

def scale(x, w):
    y = torch.empty_like(x)
    SHAPE
    y_tiles = TensorDescriptor.from_tensor(y, [1, 128])
    copy_kernel[(64,)](x_tiles, y_tiles)
    return y
"""
PLAIN_TILES = "x_tiles = TensorDescriptor.from_tensor(x, [1, 128])"


def test_a_host_side_descriptor_becomes_data_with_its_map():
    step = launch(DESCRIBED.replace("SHAPE", PLAIN_TILES))
    x, y = step.arguments
    assert (x.buffer, x.offset_bytes, x.shape, x.strides, x.block) == (0, 0, (64, 128), (128, 1), (1, 128))
    assert (x.kind, x.dtype, x.nan_fill, x.layout, y.buffer) == ("descriptor", "float32", False, None, 2)
    assert x.map is not None and (x.map.element, x.map.swizzle) == (7, 0)
    assert x.map.box == (1, 128)


@pytest.mark.parametrize(
    ("tiles", "said"),
    [
        ("TensorDescriptor(x, [1064, 128], [128, 1], [1, 128])", "of its tensor's memory"),
        ("TensorDescriptor(x[1:], [64, 128], [128, 1], [1, 128])", "of its tensor's memory"),
        ("TensorDescriptor(x, [64, 128], [127, 1], [1, 128])", "16-byte aligned"),
        ("TensorDescriptor(x[:, 1:], [64, 127], [128, 1], [1, 128])", "16-byte aligned"),
        ("TensorDescriptor(x, [64, 64], [128, 2], [1, 64])", "contiguous"),
    ],
)
def test_a_descriptor_that_no_copy_engine_takes_or_that_leaves_its_memory_is_refused(tiles, said):
    outcome, reason, line = refusal(DESCRIBED.replace("SHAPE", f"x_tiles = {tiles}"))
    assert (outcome, said in reason, line is not None) == (Outcome.PLAN_REJECTED, True, True), reason


def test_a_class_that_only_looks_like_a_descriptor_is_refused():
    made = "x_tiles = type('TensorDescriptor', (TensorDescriptor,), {})(x, [64, 128], [128, 1], [1, 128])"
    outcome, reason, _ = refusal(DESCRIBED.replace("SHAPE", made))
    assert outcome is Outcome.UNSUPPORTED_LAUNCH and "TensorDescriptor" in reason


GLUON = """
import torch, triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, block: gl.constexpr, layout: gl.constexpr):
    cols = gl.arange(0, block, layout)
    at = gl.program_id(0) * n_cols + cols
    x = gl.load(x_ptr + at, mask=cols < n_cols)
    gl.store(y_ptr + at, x * gl.load(w_ptr + cols, mask=cols < n_cols), mask=cols < n_cols)

def scale(x, w):
    y = torch.empty_like(x)
    layout = gl.BlockedLayout([1], [32], [4], [0])
    scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], block=128, layout=layout, num_warps=4)
    return y
"""


def test_a_kernel_in_gluon_is_launched_with_its_layout():
    step = launch(GLUON)
    assert step.function == "scale_kernel" and step.constants["block"] == 128
    assert str(step.constants["layout"]).startswith("layout:BlockedLayout(size_per_thread=[1]")


def test_a_reinterpreted_tensor_keeps_its_memory():
    source = candidate(ALLOCATE + LAUNCH.replace("(x, w", "(triton.reinterpret(x, tl.int32), w")).replace(
        "x * w, mask", "x.to(tl.float32) * w, mask"
    )
    first = launch(source).arguments[0]
    assert (first.buffer, first.dtype) == (0, "int32")


def test_pointers_tell_offset_and_extent():
    body = "y = torch.empty_like(x)\nscale_kernel[(32,)](x[32:, 16:], w, y, 64, BLOCK=64)\nreturn y\n"
    pointer = launch(candidate(body)).arguments[0]
    assert pointer.offset_bytes == (32 * 128 + 16) * 4
    assert pointer.extent_bytes == (31 * 128 + 112) * 4


def kernels(source, **changes):
    reply = traced(source, **changes)
    assert reply.outcome is Outcome.CORRECT, reply.reason
    return reply.kernels


def test_alignment_is_specialised_as_it_will_be_replayed():
    aligned = candidate(ALLOCATE + LAUNCH.replace("(x, w, y, x.shape[1]", "(x[:, 4:], w, y, 1024"))
    unaligned = aligned.replace("x[:, 4:]", "x[:, 1:]")
    wide = operator(shapes=[{"dims": {"M": 64, "N": 2048}}])
    assert set(kernels(aligned, of=wide)) != set(kernels(unaligned, of=wide))


def test_equal_specialisations_are_compiled_once():
    of = operator(shapes=[{"dims": {"M": rows, "N": 128}} for rows in (8, 16, 32, 64)])
    reply = traced(candidate(), of)
    assert len(reply.variants[0].plans) == 4
    assert len(reply.kernels) == 1


def test_integers_specialise_as_triton_does_it():
    of = operator(shapes=[{"dims": {"M": 8, "N": columns}} for columns in (2032, 2048, 2033)])
    reply = traced(candidate(), of)
    assert len(reply.kernels) == 2, "2032 and 2048 are divisible by 16, 2033 is not"


def test_several_launches_and_temporaries():
    body = """\
        temporary = torch.empty_like(x)
        y = torch.empty_like(x)
        scale_kernel[(x.shape[0],)](x, w, temporary, x.shape[1], BLOCK=128)
        scale_kernel[(x.shape[0],)](temporary, w, y, x.shape[1], BLOCK=128)
        return y
    """
    plan = traced(candidate(body)).variants[0].plans[0]
    assert [step.op for step in plan.steps] == ["allocate", "allocate", "launch", "launch"]
    assert [[item.buffer for item in step.arguments[:3]] for step in plan.launches] == [[0, 1, 2], [2, 1, 3]]


def test_heuristics_are_evaluated_in_the_trace():
    decorator = "@triton.heuristics({'BLOCK': lambda args: triton.next_power_of_2(args['n_cols'])})\n@triton.jit"
    source = candidate(ALLOCATE + LAUNCH.replace(", BLOCK=triton.next_power_of_2(x.shape[1])", ""))
    step = launch(source.replace("@triton.jit", decorator))
    assert (step.function, step.constants) == ("scale_kernel", {"BLOCK": 128})


@pytest.mark.parametrize(
    "path", ["triton.language.extra import libdevice", "triton.language.extra.cuda import libdevice"]
)
def test_nested_functions_and_libdevice(path):
    nested = f"from {path}\n\n\n@triton.jit\ndef squash(x):\n    return libdevice.tanh(x)\n\n\n@triton.jit"
    source = candidate().replace("@triton.jit", nested, 1).replace("x * w, mask", "squash(x) * w, mask")
    assert launch(source).function == "scale_kernel"


def test_global_scratch_is_recorded():
    source = candidate().replace(
        "    tl.store(",
        "    descriptor = tl.make_tensor_descriptor(x_ptr, [64, n_cols], [n_cols, 1], [1, BLOCK])\n"
        "    x = descriptor.load([row, 0]).reshape(BLOCK)\n    tl.store(",
    )
    source = source.replace(
        "    y = torch", "    triton.set_allocator(lambda size, align, stream: None)\n    y = torch"
    )
    (kernel,) = kernels(source).values()
    assert kernel.global_scratch_bytes > 0
    assert kernel.global_scratch_align >= 16


def test_shapes_decide_what_is_launched():
    body = "y = torch.empty_like(x)\nif x.shape[0] > 32:\n    scale_kernel[(1,)](x, w, y, 8, BLOCK=8)\n" + LAUNCH
    reply = traced(candidate(body), shapes=(shape(M=8, N=128), shape(M=64, N=128)))
    assert [len(plan.launches) for plan in reply.variants[0].plans] == [1, 2]
