"""The kernel of attention, in Triton's interpreter: against torch in float64."""

import ast
import json
from pathlib import Path

from tests.workers.inductor_seeds.interpreted import interpreted
from workers.inductor_seeds.attention_kernel import Attention, options_for

OPTIONS = options_for((32, 32), None, is_single=True)

CHECK = """
results = []
for wide, channels, rows, keys, bias, pages, outer, masks, empty, scale in json.loads('''CASES'''):
    torch.manual_seed(0)
    q, k, v = torch.randn(6, rows, wide), torch.randn(6, keys, wide), torch.randn(6, keys, channels)
    pages = max(1, pages)
    added = torch.randn(pages, rows if bias > 1 else 1, keys)
    added[:, :, ::3] = -inf
    if bias > 1:
        added[:, -1] = -inf
    y = torch.full((6, rows, channels), nan)
    kernel = kernels.pop(0)
    if masks:
        added = torch.where(added == -inf, -inf, 0.0)
        k[0, 3] = nan
    numbers = [keys if bias > 1 else 0, added[0].numel(), 6 // pages if outer else 1, pages]
    given = [q, k, v, *([added] if bias else []), y, rows, keys, *(numbers if bias else [])]
    own = torch.arange(6) // (6 // pages) if outer else torch.arange(6) % pages
    scores = q.double() @ k.double().transpose(1, 2) * scale
    if masks:
        scores = torch.where(added[own] == -inf, -inf, scores)
    elif bias:
        scores += added[own].double()
    kernel[(6, triton.cdiv(rows, 32))](*given, BLOCK_M=32, BLOCK_N=16)
    right = torch.softmax(scores, -1).nan_to_num(0.0 if empty else nan) @ v.double()
    results.append([int((y.isnan() != right.isnan()).sum()), float((y - right).abs().nan_to_num(0.0).max())])
print(json.dumps(results))
"""
CASES = [
    (24, 40, 50, 37, 0, 0, False, False, False, 0.2),
    (32, 16, 33, 64, 1, 1, False, False, False, 1.0),
    (8, 128, 20, 5, 2, 1, False, False, True, 0.3),
    (64, 64, 65, 50, 2, 3, False, False, False, 0.125),
    (16, 16, 20, 40, 2, 2, True, True, False, 0.25),
    (16, 16, 20, 40, 1, 3, True, False, False, 0.25),
    (16, 16, 20, 40, 2, 6, False, True, False, 0.25),
]


def test_the_kernel_is_right_with_and_without_a_bias_and_at_the_ends(tmp_path: Path) -> None:
    texts = []
    for number, (wide, channels, _, _, bias, _, outer, masks, empty, scale) in enumerate(CASES):
        function = Attention(wide, channels, scale, bias > 0, masks, outer, empty, "ieee", OPTIONS).kernel()
        function.name = f"kernel_{number}"
        texts.append(ast.unparse(function))
    names = ", ".join(f"kernel_{number}" for number in range(len(CASES)))
    source = "\n\n".join([*texts, f"kernels = [{names}]\n", CHECK.replace("CASES", json.dumps(CASES))])
    found = interpreted(source, tmp_path)
    assert [nans for nans, _ in found] == [0] * len(CASES)
    assert max(distance for _, distance in found) < 1e-5


def test_a_launch_has_a_program_for_the_rows_of_each_matrix() -> None:
    of = Attention(32, 32, 1.0, True, False, True, False, None, OPTIONS)
    launch = of.launch("attend", ["q", "k", "v", "bias", "y"], ["8 * B", "S", "32"], "T", ["B", "1", "T"])
    assert launch.startswith(
        "attend[(8 * B, triton.cdiv(S, 128))](q, k, v, bias, y, S, T, 0, T, (8 * B) // (B), B, BLOCK_M=128, BLOCK_N=32"
    )
    assert "input_precision" not in ast.unparse(of.kernel())


def test_programs_have_no_more_rows_than_there_are_and_fewer_where_queries_are_wide() -> None:
    said = [
        options_for((size, 16), rows, is_single=True) for size, rows in ((64, None), (65, 2**20), (64, 50), (64, 2))
    ]
    assert [(each["BLOCK_M"], each["num_warps"]) for each in said] == [(128, 8), (64, 8), (64, 4), (16, 2)]
    assert options_for((128, 128), None, is_single=False)["BLOCK_M"] == 128
