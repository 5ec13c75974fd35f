"""Comparisons: what one of them fails by is the reason of its row."""

from collections.abc import Sequence

from benchmarks.baseline_comparison import compared
from benchmarks.figures import Row
from benchmarks.suites import ANCHOR, SuiteEntry
from tests.service.records import search
from tests.workers.runner.plans import bundle_of, kernel
from workers.protocol import Bundle, Graph


async def test_a_comparison_that_fails_is_the_reason_of_its_row():
    def compare(entry: SuiteEntry, graphs: Sequence[Graph], bundle: Bundle) -> Row:
        if entry is ANCHOR[0]:
            raise ValueError("it cannot be assembled")
        return {"reef_us": 1.0}

    failed, found = [await compared(compare, entry, search().graphs, bundle_of(kernel())) for entry in ANCHOR[:2]]
    assert failed["reason"] == "ValueError: it cannot be assembled" and "reef_us" not in failed
    assert found["reef_us"] == 1.0 and "reason" not in found and found["compare_s"] >= 0.0
