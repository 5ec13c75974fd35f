"""Predicted, recorded and measured are never confused, and a measured speedup names what it is relative to."""

import pytest

from service.evaluation.figure_labels import best_baselines, in_words, provenance, relative_to
from tests.service import records
from workers.protocol import ShapeResult

WORDS = {"PREDICTED", "RECORDED", "MEASURED"}


@pytest.mark.parametrize(
    ("device", "word", "base"),
    [
        ("model:sm_90", "PREDICTED", "seed kernel"),
        ("recorded:h200", "RECORDED", "seed kernel"),
        ("h200", "MEASURED", "best baseline"),
    ],
)
def test_what_figures_are_is_said_in_one_word(device: str, word: str, base: str) -> None:
    text = in_words(device)
    assert {found for found in WORDS if found in text} == {word} and base in text
    assert (provenance(device).upper(), relative_to(device)) == (word, base)


def test_the_best_baseline_of_a_shape_is_the_fastest() -> None:
    shapes = (
        ShapeResult(shape="N=1024", baselines_us={"eager": 40.0, "max_autotune": 12.0, "liger": 12.5}),
        ShapeResult(shape="N=4096", baselines_us={"eager": 9.0, "compile": 10.0}),
        ShapeResult(shape="N=8192"),
    )
    found = best_baselines(records.report({}, shapes=shapes))
    assert found == {"N=1024": "max_autotune", "N=4096": "eager"}
