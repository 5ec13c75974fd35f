"""Recurrent layers by our kernel, in Triton's interpreter: against torch's layers in float64."""

import ast
import json
import subprocess
import sys

from workers.inductor_seeds.recurrence import OPTIONS, Recurrence

CASES = [
    {"layer": "LSTM", "rows": 17, "settings": {"num_layers": 3, "batch_first": True}},
    {"layer": "LSTM", "rows": 2, "settings": {"num_layers": 2, "bidirectional": True}},
    {"layer": "LSTM", "rows": 3, "settings": {"num_layers": 1, "bias": False}},
    {"layer": "GRU", "rows": 3, "settings": {"num_layers": 3}},
    {"layer": "GRU", "rows": 3, "settings": {"num_layers": 2, "bias": False, "bidirectional": True}},
    {"layer": "RNN", "rows": 3, "settings": {"num_layers": 2}},
    {"layer": "RNN", "rows": 3, "settings": {"num_layers": 2, "nonlinearity": "relu", "bias": False}},
]
TF32 = 2**-9
"""Distance that factors rounded to TF32 allow: half a unit of 10 bits each, over a few positions."""


def test_layers_of_all_kinds_stacked_and_in_both_directions_are_right() -> None:
    command = [sys.executable, "-m", "tests.workers.inductor_seeds.recurrent"]
    done = subprocess.run(command, input=json.dumps(CASES), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    distances = json.loads(done.stdout)
    assert len(distances) == len(CASES) and max(distances) < TF32, distances
    assert min(distances) > 0


def test_a_launch_computes_a_position_of_every_chain() -> None:
    chained = Recurrence("lstm", True, None, False, OPTIONS)
    loop, launch = chained.launches("step", ["g"], ["1", "T", "B", "80"], ["3", "B", "20"])
    assert loop == "for wave in range(T + 3 - 1):"
    assert launch.startswith("    step[(triton.cdiv(20, 16), 3, triton.cdiv(B, 16))](g, wave, T, B, 20, BLOCK_M=16")
    beside = Recurrence("gru", False, "ieee", False, OPTIONS)
    assert beside.launches("step", ["g"], ["2", "T", "B", "60"], ["2", "B", "20"])[0] == "for wave in range(T):"
    text = ast.unparse(beside.kernel())
    assert "input_precision='ieee'" in text and "inner_weights" not in text and "near" not in text
    assert ast.unparse(Recurrence("gru", True, None, True, OPTIONS).kernel()).count("-8192") == 2 + 2 * 3
