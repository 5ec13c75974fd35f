"""A hint that the compiler heeds where nobody comes by stands in the wrong place."""

import pytest

from tests.workers.devices.kernels import PLAIN, job_for
from tests.workers.interpreter.test_recompilation import outcome

HINT = "tl.multiple_of(tl.max_contiguous(o, 4), 4)"
MISPLACED = {
    "in a branch": f"o = cols ^ 1\n    if n_cols < 0:\n        {HINT}",
    "under another name": "o = cols ^ 1\n    if n_cols < 0:\n        p = o.to(tl.int32)\n        tl.multiple_of(p, 4)",
    "in a loop": f"o = cols ^ 1\n    for _ in range(n_cols - 1000000):\n        {HINT}",
    "in a loop that makes another": f"o = cols ^ 1\n    for _ in range(n_cols):\n        {HINT}\n        o += 4",
    "behind a return": f"o = cols ^ 1\n    if n_cols > 0:\n        return\n    {HINT}",
}
IN_PLACE = {
    "about a parameter": "tl.multiple_of(x_ptr, 16)\n    if n_cols < 0:\n        tl.multiple_of(x_ptr, 16)",
    "about what is calculated": f"o = cols ^ 1\n    if n_cols < 0:\n        {HINT.replace('o,', 'o + 3,')}",
    "where the compiler decides": f"o = cols ^ 1\n    if BLOCK > 1:\n        {HINT}",
    "where it is made": f"if n_cols < 0:\n        o = cols ^ 1\n        p = o + 1\n        o = {HINT}",
    "about a loop's counter": f"for o in range(n_cols):\n        o = {HINT}".replace(
        "max_contiguous(o, 4)", "multiple_of(o, 1)"
    ),
    "about what a loop makes": f"o = cols ^ 1\n    for _ in range(n_cols):\n        o += 1\n        {HINT}",
    "at its end": f"o = cols % n_cols\n    p = cols < n_cols\n    o = {HINT}",
}


def told(line: str) -> str:
    return outcome(job_for(PLAIN.replace("    y = e", f"    {line}\n    y = e", 1)))


@pytest.mark.parametrize("where", MISPLACED)
def test_hints_about_values_from_elsewhere_are_refused(where: str):
    assert "is a hint about a value that is made elsewhere" in told(MISPLACED[where])


@pytest.mark.parametrize("where", IN_PLACE)
def test_hints_where_their_value_is_made_are_taken(where: str):
    assert told(IN_PLACE[where]) == ""
