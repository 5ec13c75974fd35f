"""Texts and what travels as texts are told apart, whatever the texts are."""

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.protocol.documents import LAUNCH
from workers.protocol import Launch
from workers.protocol.tags import escaped, tagged, untagged

TAGS = st.sampled_from(["dtype", "torch", "function", "text"])
TEXTS = st.sampled_from(["NaN", "Infinity", "-Infinity", "", ":", "text", "relu:a"]) | st.text()


@given(TEXTS | st.builds(tagged, TAGS, TEXTS))
def test_every_text_comes_back_as_the_same_text(text: str) -> None:
    launch = Launch.model_validate({**LAUNCH, "constants": {"a": escaped(text)}})
    back = Launch.model_validate_json(launch.model_dump_json()).constants["a"]
    assert isinstance(back, str) and untagged(back) == ("text", text)


@given(TAGS, TEXTS)
def test_tags_are_read_again(tag: str, name: str) -> None:
    assert untagged(tagged(tag, name)) == (tag, name)


def test_usual_texts_stay_as_they_are() -> None:
    assert [escaped(text) for text in ("relu", "", "a:b")] == ["relu", "", "a:b"]
    assert escaped("torch:builtins") == "text:torch:builtins"
