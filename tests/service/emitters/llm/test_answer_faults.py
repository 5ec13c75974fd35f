from pathlib import Path

from service.emitters.llm.answer_faults import SENTENCE, AnswerFault, UnusableAnswer


def test_sentences_are_cut():
    assert len(UnusableAnswer(AnswerFault.NO_CODE, "x" * 10_000).sentence) == SENTENCE


def test_every_fault_is_documented():
    text = (Path(__file__).parents[4] / "docs" / "how-to" / "use-a-model-key.md").read_text()
    assert [
        fault.value for fault in AnswerFault if f"`{fault.value}`" not in text.partition("## Unusable answers")[2]
    ] == []
