"""States are the same words on the wire as in the archive."""

from archive import records
from kernelreef.states import CandidateState, SearchState


def test_the_archive_has_the_same() -> None:
    assert records.SearchState is SearchState and records.CandidateState is CandidateState


def test_they_are_words() -> None:
    assert [state.value for state in SearchState] == ["preparing", "running", "paused", "done", "stopped", "failed"]
    assert SearchState("done") == "done"
