"""Code in answers of other forms than asked for, and texts in which none must be found."""

import json

import pytest

from service.emitters.llm.answers import read_answer
from service.emitters.llm.unfenced import is_code, plain, readings

CODE = "import torch\n\n\ndef scale(x):\n    return torch.empty_like(x)\n"
FENCED = f"```python\n{CODE}```\n"
DOCUMENTED = f'"""Doubles.\n\n```\nscale(x)\n```\n"""\n{CODE}'
FORMS = {
    "without marks": f"Change: wider tiles, fewer programs\n\n{CODE}",
    "words around it": f"Here it is:\n\n{CODE}\nThis reads each row once. It's fast!",
    "indented": "So:\n\n" + "".join(f"    {line}\n" for line in CODE.splitlines()) + "\nGood luck.",
    "in a tag": f"<answer>\n{CODE}</answer>",
    "parameters of a call": f"<function=write>\n<parameter=content>\n{CODE}</parameter>\n</function>\n",
    "JSON of a call": f"<tool_call>{json.dumps({'arguments': json.dumps({'content': CODE})})}</tool_call>",
    "JSON with another key": json.dumps({"notes": "none", "kernel": CODE}),
    "JSON of files": json.dumps({"files": [{"path": "k.py", "content": CODE}]}),
    "a JSON text": json.dumps(FENCED),
    "no width": FENCED.replace("return", "\u200breturn"),
    "blanks that do not break": FENCED.replace("    ", "\u00a0" * 4),
    "typographic quotes": FENCED.replace("torch\n", "torch\nNAME = \u201cx\u201d\n", 1),
    "escaped": FENCED.replace("(x)\n", "(x) if 1 &lt; 2 else x\n"),
    "line ends of old": FENCED.replace("\n", "\r"),
    "a command of notebooks": FENCED.replace("python\n", "python\n%%writefile k.py\n"),
    "the name of a file": FENCED.replace("python\n", "python\nkernels/k.py\n"),
    "marks within a string": f"```python\n{DOCUMENTED}```\n",
    "marks behind a text": f"Here: {FENCED}",
    "the same twice": f"{FENCED}\nOnce more:\n\n{FENCED}",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_code_is_found(text: str) -> None:
    source = read_answer(text, "scale").source
    assert is_code(source)
    assert "def scale(x):" in source


@pytest.mark.parametrize(
    "text", ["Use num_warps=8.", '{"a": "b\nc"}', "<b>bold</b>", "import is a word", "", "```\nx\n```"]
)
def test_none_is_found(text: str) -> None:
    assert not any("import torch" in each or is_code(each) for each in readings(text))


def test_plain_texts_stay() -> None:
    assert plain(FENCED) == FENCED
    assert plain("a &amp b \u00ad") == "a &amp b "
