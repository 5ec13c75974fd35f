"""The kernel of attention, in Triton's interpreter: against torch in float64."""

import ast
import json
from pathlib import Path

from tests.workers.inductor_seeds.interpreted import interpreted
from workers.inductor_seeds.attention_kernel import Attention, options_for

OPTIONS = options_for((32, 32), None, is_single=True)

CHECK = """
results = []
for wide, channels, rows, keys, bias, masks, empty, scale in json.loads('''CASES'''):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, rows, wide), torch.randn(3, keys, wide), torch.randn(3, keys, channels)
    added = torch.randn(rows if bias > 1 else 1, keys)
    added[:, ::3] = -inf
    added[-1] = -inf if bias > 1 else added[-1]
    y = torch.full((3, rows, channels), nan)
    kernel = kernels.pop(0)
    given = [q, k, v, *([added] if bias else []), y, rows, keys, *([keys if bias > 1 else 0] if bias else [])]
    scores = q.double() @ k.double().transpose(1, 2) * scale
    if masks:
        added = torch.where(added == -inf, -inf, 0.0)
        given[3] = added
        k[0, 3] = nan
        scores = torch.where(added == -inf, -inf, q.double() @ k.double().transpose(1, 2) * scale)
    elif bias:
        scores += added.double()
    kernel[(3, triton.cdiv(rows, 32))](*given, BLOCK_M=32, BLOCK_N=16)
    right = torch.softmax(scores, -1).nan_to_num(0.0 if empty else nan) @ v.double()
    results.append([int((y.isnan() != right.isnan()).sum()), float((y - right).abs().nan_to_num(0.0).max())])
print(json.dumps(results))
"""
CASES = [
    (24, 40, 50, 37, 0, False, False, 0.2),
    (32, 16, 33, 64, 1, False, False, 1.0),
    (8, 128, 20, 5, 2, False, True, 0.3),
    (64, 64, 65, 50, 2, False, False, 0.125),
    (16, 16, 20, 40, 2, True, False, 0.25),
]


def test_the_kernel_is_right_with_and_without_a_bias_and_at_the_ends(tmp_path: Path) -> None:
    texts = []
    for number, (wide, channels, _, _, bias, masks, empty, scale) in enumerate(CASES):
        function = Attention(wide, channels, scale, bias > 0, masks, empty, "ieee", OPTIONS).kernel()
        function.name = f"kernel_{number}"
        texts.append(ast.unparse(function))
    names = ", ".join(f"kernel_{number}" for number in range(len(CASES)))
    source = "\n\n".join([*texts, f"kernels = [{names}]\n", CHECK.replace("CASES", json.dumps(CASES))])
    found = interpreted(source, tmp_path)
    assert [nans for nans, _ in found] == [0] * len(CASES)
    assert max(distance for _, distance in found) < 1e-5


def test_a_launch_has_a_program_for_the_rows_of_each_matrix() -> None:
    of = Attention(32, 32, 1.0, True, False, False, None, OPTIONS)
    launch = of.launch("attend", ["q", "k", "v", "bias", "y"], ["8 * B", "S", "32"], "T", "1")
    assert launch.startswith("attend[(8 * B, triton.cdiv(S, 128))](q, k, v, bias, y, S, T, 0, BLOCK_M=128, BLOCK_N=32")
    assert "input_precision" not in ast.unparse(of.kernel())


def test_programs_have_no_more_rows_than_there_are_and_fewer_where_queries_are_wide() -> None:
    said = [
        options_for((size, 16), rows, is_single=True) for size, rows in ((64, None), (65, 2**20), (64, 50), (64, 2))
    ]
    assert [(each["BLOCK_M"], each["num_warps"]) for each in said] == [(128, 8), (64, 8), (64, 4), (16, 2)]
    assert options_for((128, 128), None, is_single=False)["BLOCK_M"] == 128
