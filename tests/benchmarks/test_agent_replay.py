"""Transcripts of agents: which kernels are submitted again, and in which order."""

import json
from pathlib import Path

import pytest

from benchmarks.agent_replay import SUBMIT, submitted
from benchmarks.record import RESULTS

TRANSCRIPTS = [
    path for path in sorted(RESULTS.glob("agent_over_mcp*.json")) if "kernels" in json.loads(path.read_text())
]
"""Those that hold kernels; what a replay recorded does not."""


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_correct_kernels_are_submitted_again_in_their_order(path: Path) -> None:
    document = json.loads(path.read_text())
    found = submitted(document)
    judged = [call for call in document["calls"] if call["tool"] == SUBMIT and not call["error"]]
    assert 3 <= len(found) <= len(judged)
    for name, source, note in found:
        assert source == document["kernels"][name] and f"def {document['search']['operator']}(" in source and note
    assert [name for name, _, _ in found] == sorted(name for name, _, _ in found), "the agent named them in this order"
