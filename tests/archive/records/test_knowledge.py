"""An entry's id is what it is about, and nothing else."""

import pytest

from archive.records import NewKnowledgeEntry, entry_id

ABOUT = {
    "move": "num_warps down",
    "traits": ("reduction", "rows:long"),
    "bottleneck": "memory",
    "device": "model:sm_90",
}


def entry(**changes: object) -> NewKnowledgeEntry:
    return NewKnowledgeEntry(**{**ABOUT, "sentence": "Fewer warps helped.", **changes})  # type: ignore[arg-type]


def test_the_id_is_the_same_everywhere_and_says_nothing_of_the_sentence() -> None:
    assert entry().id == entry(sentence="Another.").id == entry_id(**ABOUT)  # type: ignore[arg-type]
    assert entry().id == "a0cabaa671771b13d9e2093c"


@pytest.mark.parametrize(
    "change",
    [{"move": "x"}, {"traits": ("reduction",)}, {"bottleneck": "compute"}, {"device": "h200"}],
)
def test_whatever_an_entry_is_about_changes_its_id(change: dict[str, object]) -> None:
    assert entry(**change).id != entry().id
