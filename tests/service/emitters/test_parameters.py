import pytest

from service.emitters.parameters import TunableParameter, parameters
from service.operators.catalogue import load_catalogue
from service.operators.sources import parse
from tests.service.emitters.samples import DOUBLED, candidate, rewritten, seed


def found(source, target="sm_90"):
    return {item.name: item.value for item in parameters(parse(source), target)}


def ladder(source, name, target="sm_90"):
    return next(item.ladder for item in parameters(parse(source), target) if item.name == name)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("rmsnorm", {"num_warps": 8}),
        ("gelu", {"num_warps": 4, "BLOCK": 1024}),
        ("matmul", {"num_warps": 4, "num_stages": 3, "BLOCK_K": 32, "BLOCK_M": 64, "BLOCK_N": 64}),
        ("attention", {"num_warps": 4, "num_stages": 2, "BLOCK_M": 64, "BLOCK_N": 64}),
    ],
)
def test_parameters_of_the_catalogue(operator, expected):
    assert found(seed(operator)) == expected


SEEDS = [
    pytest.param(text, id=f"{name}-{number}")
    for name, operator in load_catalogue().items()
    for number, text in enumerate(operator.seeds)
]


@pytest.mark.parametrize("text", SEEDS)
def test_every_seed_of_the_catalogue_has_parameters(text):
    assert found(text)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("attention", {"BLOCK_M", "BLOCK_N", "SLOTS", "REGISTERS", "GROUP_HEADS", "programs_per_sm"}),
        ("matmul", {"matmul_kernel.BLOCK_M", "matmul_kernel.BLOCK_K", "SLOTS", "REGISTERS", "GROUP_M"}),
        ("gate_up_swiglu", {"gate_up_swiglu_kernel.BLOCK_N", "SLOTS", "REGISTERS", "GROUP_M", "programs_per_sm"}),
    ],
)
def test_parameters_of_seeds_in_gluon(operator, expected):
    in_gluon = [text for text in load_catalogue()[operator].seeds if "@gluon.jit" in text]
    for text in in_gluon:
        assert expected <= found(text).keys()
        rows = next(item for item in parameters(parse(text), "sm_90") if item.name.endswith("BLOCK_M"))
        assert rows.ladder[0] == 64 or "plain_kernel" in rows.name, "a warp group multiplies 64 rows"


def test_parameters_of_several_kernels_say_whose_they_are():
    assert found(seed("cross_entropy"))["mean_kernel.BLOCK"] == 1024
    assert "num_warps" not in found(seed("cross_entropy"))


@pytest.mark.parametrize(
    ("rule", "operator", "parameter"),
    [
        ("rows_tile", "rmsnorm", "ROWS"),
        ("run_of_pieces", "rmsnorm", "RUN"),
        ("persistent", "rmsnorm", "programs_per_sm"),
        ("chunk_row", "rmsnorm", "BLOCK cap"),
        ("size_warps", "rmsnorm", "num_warps per"),
        ("limit_registers", "rmsnorm", "maxnreg"),
        ("group_programs", "matmul", "GROUP"),
        ("pipeline_loop", "matmul", "loop num_stages"),
        ("flat_grid", "matmul", "BLOCK_M"),
        ("even_mask", "gelu", "BLOCK"),
    ],
)
def test_numbers_that_rules_add_are_parameters(rule, operator, parameter):
    sources = (rewritten(rule, seed(operator), draw) for draw in range(6))
    assert any(parameter in found(source) for source in sources)


def test_a_tile_that_holds_a_whole_row_is_none():
    assert "BLOCK" not in found(candidate(DOUBLED, passed="x, y, n_cols, BLOCK=1024"))
    assert found(candidate(DOUBLED, passed="x, y, n_cols, BLOCK=1024", grid="(BLOCK,)")) == {"num_warps": 4}


def test_a_number_that_the_host_writes_again_is_none():
    source = candidate(
        DOUBLED, passed="x, y, n_cols, BLOCK=128", grid="lambda meta: (triton.cdiv(n_cols, meta['BLOCK']),)"
    )
    assert found(source)["BLOCK"] == 128
    assert "BLOCK" not in found(source.replace("    \n", "    part = torch.empty((n_cols // 128,))\n"))


def test_a_tile_without_a_cap_can_get_one():
    source = rewritten("chunk_row", seed("rmsnorm")).replace("min(triton.next_power_of_2(n_cols), 16)", "size")
    source = source.replace("    y = torch", "    size = triton.next_power_of_2(n_cols)\n    y = torch")
    source = source.replace("min(triton.next_power_of_2(n_cols), 32)", "size")
    assert found(source)["BLOCK cap"] is None


def test_bounds_and_divisors():
    source = candidate(DOUBLED, passed="x, y, n_cols, BLOCK=1, num_warps=max(2, min(16, n_cols // 512))")
    assert found(source) == {"num_warps floor": 2, "num_warps cap": 16, "num_warps per": 512}


def test_ladders_fit_what_they_are_for():
    assert ladder(seed("gelu"), "num_warps") == (1, 2, 4, 8, 16, 32)
    assert ladder(seed("gelu"), "num_warps", "gfx942") == (1, 2, 4, 8, 16)
    assert ladder(seed("gelu"), "BLOCK")[-1] == 65536
    assert ladder(seed("matmul"), "BLOCK_M")[-1] == 256
    assert ladder(rewritten("rows_tile", seed("gelu")), "ROWS")[0] == 1


def test_autotuned_launches_keep_their_options():
    source = seed("gelu").replace("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit")
    assert found(source) == {}


def test_stages_only_where_there_is_a_loop():
    assert "num_stages" not in found(seed("gelu"))
    assert found(seed("cross_entropy"))["row_loss_kernel.num_stages"] == 3


def test_equal_names_are_numbered():
    source = seed("gelu").replace(
        "    return y", "    gelu_kernel[(8,)](x, y, n_elements, BLOCK=64, num_warps=2)\n    return y"
    )
    assert {name: value for name, value in found(source).items() if "num_warps" in name} == {
        "gelu_kernel.num_warps": 4,
        "gelu_kernel.num_warps (2)": 2,
    }


@pytest.mark.parametrize(
    ("value", "neighbours"), [(4, (2, 8)), (1, (2,)), (8, (4,)), (3, (2, 4)), (None, (2048, 4096))]
)
def test_neighbours(value, neighbours):
    assert TunableParameter("x", value, (1, 2, 4, 8), print).neighbours == neighbours
