"""Symbolic tracing: one plan for all sizes that take the same way through host code, and plain plans to compare."""

from tests.workers.tracer.jobs import ALLOCATE, LAUNCH, candidate, in_jail, job, operator, shape, traced
from workers.protocol import Outcome, Shape
from workers.tracer.reply import SymbolicReply
from workers.tracer.symbolic import trace_symbolic

RANGES = {"M": [1, 4096], "N": [1, 8192]}
SHAPES = tuple(shape(M=m, N=n) for m, n in ((64, 128), (1, 1), (3, 128), (64, 100), (64, 3), (1, 128), (4096, 8192)))


def reply(
    source: str, *, shapes: tuple[Shape, ...] = SHAPES, policy: str = "allocate", **symbolic: object
) -> SymbolicReply:
    asked = job(source, operator(ranges=RANGES, policy={"host": policy}), shapes=shapes, symbolic=dict(symbolic))
    return SymbolicReply.model_validate_json(in_jail(trace_symbolic, asked.model_dump_json().encode()))


def test_blocks_by_powers_of_two_are_plans_of_their_own() -> None:
    found = reply(candidate())
    assert (found.outcome, found.failure, len(found.instances)) == (Outcome.CORRECT, "", len(SHAPES))
    blocks = {plan.launches[0].constants["BLOCK"] for plan in found.plans}
    assert blocks == {128, 1, 4, 8192} and len(found.plans) == 4, "rows make no difference"
    plan = next(plan for plan in found.plans if plan.launches[0].constants["BLOCK"] == 128)
    assert [n for n in (64, 65, 128, 129) if plan.admits({"M": 5, "N": n})] == [65, 128]
    made = plan.at(shape(M=7, N=77))
    assert (made.launches[0].grid, made.launches[0].arguments[3].value) == ((7, 1, 1), 77)
    assert made.outputs[0].shape == (7, 77) and made.buffers[2].bytes == 4 * 7 * 77


def test_a_fixed_block_makes_one_plan_of_all_sizes() -> None:
    looped = candidate(ALLOCATE + "scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=8192)\nreturn y")
    found = reply(looped)
    assert len(found.plans) == 1 and len({plan.launches[0].kernel for plan in found.instances}) > 1


FILLED = """\
y = torch.zeros_like(x)
z = torch.full((x.shape[0] + 4, 2), 1.5, device=x.device)
z[4:].copy_(z[:-4])
scale_kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]), 1)](x[x.shape[0] // 2:], w, z, 9, 16, num_warps=2)
scale_kernel[(1,)](x, w, y, x.stride(0), BLOCK=16, num_warps=x.shape[0] // x.shape[0] + 1)
return y
"""


def test_fills_copies_parts_and_options_are_formulas_too() -> None:
    found = reply(candidate(FILLED), policy="copy")
    assert found.plans and not found.failure
    for instance in found.instances:
        plan = next(plan for plan in found.plans if plan.admits(instance.shape.dims))
        assert plan.at(instance.shape) == plan.likened(instance), instance.shape.key
        assert [launch.options["num_warps"] for launch in plan.launches] == [2, 2]


TUNED = (
    candidate()
    .replace(
        "@triton.jit",
        '@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=n) for n in (1, 2)], key=[])\n@triton.jit',
    )
    .replace(", BLOCK=triton.next_power_of_2(x.shape[1])", "")
)


def test_the_variant_is_the_one_asked_for() -> None:
    configurations = [variant.configuration for variant in traced(TUNED).variants]
    assert [each["num_warps"] for each in configurations] == [1, 2]
    for configuration in configurations:
        found = reply(TUNED, **configuration)
        assert found.plans[0].launches[0].options["num_warps"] == configuration["num_warps"]


def test_host_code_that_wants_plain_numbers_has_no_symbolic_plan_and_says_why() -> None:
    strict = candidate(
        "if not isinstance(x.shape[0], int):\n    raise ValueError('plain numbers')\n" + ALLOCATE + LAUNCH
    )
    found = reply(strict)
    assert (found.outcome, found.plans, found.failure) == (Outcome.CORRECT, (), "ValueError: plain numbers")
    broken = reply(candidate(ALLOCATE + "return y"))
    assert (broken.outcome, broken.reason) == (Outcome.PLAN_REJECTED, "launches no kernel")


DESCRIBED = """\
import torch, triton
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def copy_kernel(x_tiles, y_tiles):
    y_tiles.store([0, 0], x_tiles.load([0, 0]))

def scale(x, w):
    y = torch.empty_like(x)
    copy_kernel[(1,)](TensorDescriptor.from_tensor(x, [1, 128]), TensorDescriptor.from_tensor(y, [1, 128]))
    return y
"""


def test_descriptors_of_host_code_are_formulas_where_the_copy_engine_takes_them() -> None:
    found = reply(DESCRIBED, shapes=(shape(M=64, N=128), shape(M=3, N=8)))
    (plan,) = found.plans
    source, target = plan.launches[0].arguments
    assert (source.kind, source.shape, source.strides, source.block) == ("descriptor", ("M", "N"), ("N", 1), (1, 128))
    assert target.kind == "descriptor" and (source.buffer, target.buffer) == (0, 2)
    assert [plan.admits({"M": 5, "N": size}) for size in (8, 16, 10, 1000)] == [True, True, False, True]
    assert plan.at(shape(M=3, N=8)) == plan.likened(found.instances[1])
