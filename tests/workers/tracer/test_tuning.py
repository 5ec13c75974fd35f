import pytest

from tests.workers.tracer.jobs import ALLOCATE, candidate, operator, shape, traced
from workers.protocol import Outcome, ShapeRole
from workers.tracer.reply import MAX_VARIANTS

GRID = "lambda meta: (x.shape[0] * triton.cdiv(x.shape[1], meta['BLOCK']),)"
LAUNCH = f"scale_kernel[{GRID}](x, w, y, x.shape[1])\nreturn y\n"
KEEP = """\
def keep(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= named_args["n_cols"]]


"""


def tuned(*configs, extra="", body=ALLOCATE + LAUNCH):
    """A candidate whose kernel is autotuned over configurations written as arguments of `triton.Config`."""
    listed = ", ".join(f"triton.Config({config})" for config in configs)
    decorator = f"@triton.autotune(configs=[{listed}], key=['n_cols']{extra})"
    return candidate(body).replace("@triton.jit", f"{decorator}\n@triton.jit", 1)


def pruned(*configs):
    """The same with a pruning that keeps blocks as wide as a row at most."""
    source = tuned(*configs, extra=", prune_configs_by={'early_config_prune': keep}")
    return source.replace("@triton.autotune", KEEP + "@triton.autotune")


def variants(source, of=None, **changes):
    reply = traced(source, of, **changes)
    assert reply.outcome is Outcome.CORRECT, reply.reason
    return reply.variants


THREE = ("{'BLOCK': 128}, num_warps=1", "{'BLOCK': 256}, num_warps=2, num_stages=2", "{'BLOCK': 512}, maxnreg=64")


def test_every_configuration_is_a_variant():
    found = variants(tuned(*THREE))
    assert [variant.configuration for variant in found] == [
        {"BLOCK": 128, "num_warps": 1, "num_stages": 3, "num_ctas": 1},
        {"BLOCK": 256, "num_warps": 2, "num_stages": 2, "num_ctas": 1},
        {"BLOCK": 512, "num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": 64},
    ]
    assert [variant.plans[0].launches[0].constants for variant in found] == [
        {"BLOCK": size} for size in (128, 256, 512)
    ]


def test_configurations_that_there_is_no_time_for_are_left_out():
    found = variants(tuned(*THREE), deadline_s=1e-3)
    assert [variant.outcome for variant in found] == [Outcome.CORRECT, *[Outcome.TRACE_TIMEOUT] * 2]
    assert found[0].plans and found[2].configuration["BLOCK"] == 512
    assert found[1].reason.startswith("compiling 3 configurations at ")
    assert found[1].reason.endswith("offer fewer configurations")


SLOW = """\
def programs(meta):
    while meta["BLOCK"] == 256:
        pass
    return (4096,)


"""


def test_a_slow_configuration_is_cut_and_the_others_go_on():
    slow = tuned(*THREE, body=ALLOCATE + "scale_kernel[programs](x, w, y, x.shape[1])\nreturn y\n")
    found = variants(slow.replace("@triton.autotune", SLOW + "@triton.autotune"), deadline_s=5.0)
    assert [variant.outcome for variant in found] == [Outcome.CORRECT, Outcome.TRACE_TIMEOUT, Outcome.CORRECT]
    assert found[1].reason.startswith("this configuration of 2 left takes longer than its limit of 2 s")


def test_a_candidate_without_configurations_is_one_variant():
    (variant,) = variants(candidate())
    assert variant.configuration == {}


def test_launches_with_a_configuration_see_it_in_their_grid():
    of = operator(shapes=[{"dims": {"M": 4, "N": 512}}])
    assert [variant.plans[0].launches[0].grid for variant in variants(tuned(*THREE), of)] == [
        (16, 1, 1),
        (8, 1, 1),
        (4, 1, 1),
    ]


TWO_KERNELS = """\
    middle = torch.empty_like(x)
    y = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](x, w, middle, x.shape[1])
    other_kernel[(x.shape[0],)](middle, w, y, x.shape[1])
    return y
"""


def two_kernels(first, second):
    source = tuned(*first, body=TWO_KERNELS)
    end = source.index("def scale(")
    other = tuned(*second).replace("scale_kernel", "other_kernel")
    return source[:end] + other[other.index("@triton.autotune") : other.index("def scale(")] + source[end:]


def test_several_kernels_multiply_and_are_told_apart():
    found = variants(two_kernels(THREE[:2], THREE))
    assert len(found) == 6
    assert [(item.configuration["scale_kernel.BLOCK"], item.configuration["other_kernel.BLOCK"]) for item in found] == [
        (first, second) for first in (128, 256) for second in (128, 256, 512)
    ]


MANY = [f"{{'BLOCK': {2**size}}}, num_warps={warps}" for size in range(7, 11) for warps in (1, 2, 4, 8, 16)]


def test_more_combinations_than_variants_are_sampled_by_the_seed():
    def chosen(seed):
        return [tuple(item.configuration.values()) for item in variants(two_kernels(MANY, MANY), seed=seed)]

    first = chosen(0)
    assert len(first) == len(set(first)) == MAX_VARIANTS
    assert first == chosen(0)
    assert first != chosen(1)


def test_pruning_is_the_candidate_s_own():
    found = variants(pruned(*THREE), operator(shapes=[{"dims": {"M": 8, "N": 300}}]))
    assert [variant.configuration["BLOCK"] for variant in found] == [128, 256]


def test_a_shape_whose_pruning_took_the_choice_away_takes_the_first_left():
    shapes = (shape(M=8, N=512), shape(ShapeRole.BOUNDARY, M=1, N=130))
    found = variants(pruned(*THREE), shapes=shapes)
    blocks = [[plan.launches[0].constants["BLOCK"] for plan in variant.plans] for variant in found]
    assert blocks == [[128, 128], [256, 128], [512, 128]]


def test_the_hook_of_a_configuration_is_part_of_the_plan():
    found = variants(tuned("{'BLOCK': 128}, pre_hook=lambda args: args['y_ptr'].zero_()", "{'BLOCK': 256}"))
    assert [[step.op for step in variant.plans[0].steps] for variant in found] == [
        ["allocate", "fill", "launch"],
        ["allocate", "launch"],
    ]


def test_resets_that_only_timing_needs_are_not():
    (variant, _) = variants(tuned(*THREE[:2], extra=", reset_to_zero=['y_ptr'], restore_value=['y_ptr']"))
    assert [step.op for step in variant.plans[0].steps] == ["allocate", "launch"]


def test_one_bad_configuration_costs_one_variant():
    reply = traced(tuned("{'BLOCK': 100}", "{'BLOCK': 128}"))
    assert reply.outcome is Outcome.CORRECT
    assert [variant.outcome for variant in reply.variants] == [Outcome.COMPILE_ERROR, Outcome.CORRECT]
    assert reply.variants[0].configuration["BLOCK"] == 100
    assert "power of 2" in reply.variants[0].reason


def test_an_override_of_the_compiler_s_text_is_refused():
    reply = traced(tuned("{'BLOCK': 128}, ir_override='mine.ptx'"))
    assert (reply.outcome, "ir_override" in reply.reason) == (Outcome.UNSUPPORTED_LAUNCH, True)


@pytest.mark.parametrize("order", ["autotune above", "heuristics above"])
def test_heuristics_and_configurations_together(order):
    source = tuned("{'BLOCK': 128}", "{'BLOCK': 256}").replace(
        "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, EVEN: tl.constexpr"
    )
    heuristics = "@triton.heuristics({'EVEN': lambda args: args['n_cols'] % 128 == 0})\n"
    place = "@triton.jit\ndef scale" if order == "autotune above" else "@triton.autotune"
    found = variants(source.replace(place, heuristics + place))
    assert [variant.plans[0].launches[0].constants for variant in found] == [
        {"BLOCK": 128, "EVEN": True},
        {"BLOCK": 256, "EVEN": True},
    ]
