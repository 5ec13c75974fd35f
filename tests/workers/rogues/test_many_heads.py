"""A kernel that goes wrong from some number of heads on meets that number before it is timed."""

from pathlib import Path

import pytest

from service.operators.catalogue import load_catalogue
from service.operators.shapes import end_shapes
from tests.workers.rogues.modelled import DEVICE, model_job, trace_of
from workers.devices import ModelDevice
from workers.protocol import Outcome

OPERATOR = load_catalogue()["rope_half"]
SOURCE = (Path(__file__).parents[3] / "operators" / "rope_half" / "seeds" / "heads.py").read_text()
SWAPPED = SOURCE.replace("q_ptr + first", "q_ptr + taken").replace(
    "    one = tl.load",
    "    head = tl.program_id(0).to(tl.int64)\n"
    "    head = tl.where(HEADS > 24, head ^ 1, head)\n"
    "    taken = (head * n_positions + positions[:, None]) * 2 * n_angles + angles[None, :]\n"
    "    one = tl.load",
    1,
)
SWAPPED = SWAPPED.replace("n_angles, ROWS:", "n_angles, HEADS, ROWS:").replace(
    "n_angles, ROWS=16", "n_angles, q.shape[1], ROWS=16"
)


@pytest.mark.parametrize(("source", "outcome"), [(SOURCE, Outcome.CORRECT), (SWAPPED, Outcome.WRONG_RESULT)])
def test_heads_that_are_swapped_if_there_are_many_are_refused(source, outcome):
    job = model_job(OPERATOR, source, trace_of(OPERATOR, source), trace_of(OPERATOR, None).graphs)
    found = ModelDevice(DEVICE, "tester").measure(job)
    assert found.outcome is outcome, found.reason


def test_the_most_heads_are_a_shape_of_their_own():
    assert {"B": 1, "H": 64, "T": 1, "R": 64} in [shape.dims for shape in end_shapes(OPERATOR)]
