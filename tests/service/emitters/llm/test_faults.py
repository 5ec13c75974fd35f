from pathlib import Path

from service.emitters.llm.faults import SENTENCE, Fault, Unusable


def test_sentences_are_cut():
    assert len(Unusable(Fault.NO_CODE, "x" * 10_000).sentence) == SENTENCE


def test_every_fault_is_documented():
    text = (Path(__file__).parents[4] / "docs" / "llm.md").read_text()
    assert [fault.value for fault in Fault if f"| `{fault.value}` |" not in text] == []
