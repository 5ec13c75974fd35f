import random

import pytest

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer
from service.emitters.llm.fences import fences
from service.emitters.llm.templates import ParameterTemplate, fan_out, read_template

SOURCE = "import torch\n\nBLOCK = 1024  # größer\nWARPS, OTHER = 4, 5\nRATE = -0.5\n\n\ndef f(x):\n    return BLOCK\n"


def read(document):
    return read_template(fences(f"```python\nx = 1\n```\n```json\n{document}\n```\n"))


def test_values_are_read_by_name():
    assert read('{"parameters": {"BLOCK": [1, 2, 2], "RATE": [0.5]}}') == ParameterTemplate(
        {"BLOCK": (1, 2), "RATE": (0.5,)}
    )


@pytest.mark.parametrize("document", ["{}", '{"outcome": "correct"}', "[1]", "nonsense"])
def test_other_documents_are_no_template(document):
    assert read(document) is None


@pytest.mark.parametrize(
    "parameters",
    [
        "3",
        "{}",
        '{"A": []}',
        '{"A": 4}',
        '{"A": ["x"]}',
        '{"A": [1e999]}',
        '{"A": [NaN]}',
        f'{{"A": {list(range(40))}}}',
    ],
)
def test_what_cannot_be_tried_is_refused(parameters):
    with pytest.raises(UnusableAnswer) as raised:
        read(f'{{"parameters": {parameters}}}')
    assert raised.value.fault is AnswerFault.BAD_TEMPLATE


def test_two_templates_are_one_too_many():
    with pytest.raises(UnusableAnswer, match="one is allowed"):
        read_template(fences('```json\n{"parameters": {}}\n```\n```json\n{"parameters": {}}\n```'))


def test_the_file_as_it_is_comes_first_and_nothing_comes_twice():
    template = ParameterTemplate({"BLOCK": (512, 1024), "RATE": (-0.5, 1.5)})
    found = fan_out(SOURCE, template, 10, random.Random(0))
    assert found[0] == (SOURCE, "BLOCK = 1024; RATE = -0.5") and template.combinations == 4
    assert sorted(words for _, words in found) == [
        "BLOCK = 1024; RATE = -0.5", "BLOCK = 1024; RATE = 1.5", "BLOCK = 512; RATE = -0.5", "BLOCK = 512; RATE = 1.5"
    ]  # fmt: skip
    changed = dict((words, source) for source, words in found)["BLOCK = 512; RATE = 1.5"]
    assert changed == SOURCE.replace("1024", "512").replace("-0.5", "1.5")


def test_equal_chance_draws_the_same_of_many():
    template = ParameterTemplate({"BLOCK": tuple(range(30)), "RATE": tuple(range(30))})
    first, again = [fan_out(SOURCE, template, 5, random.Random(3)) for _ in range(2)]
    assert first == again and len({source for source, _ in first}) == 5


@pytest.mark.parametrize("name", ["MISSING", "WARPS", "x", "torch"])
def test_only_numbers_assigned_once_at_the_top_are_parameters(name):
    with pytest.raises(UnusableAnswer) as raised:
        fan_out(SOURCE, ParameterTemplate({name: (1, 2)}), 5, random.Random(0))
    assert raised.value.fault is AnswerFault.BAD_TEMPLATE


def test_a_name_assigned_twice_is_no_parameter():
    with pytest.raises(UnusableAnswer):
        fan_out(SOURCE + "BLOCK = 7\n", ParameterTemplate({"BLOCK": (1,)}), 5, random.Random(0))


def test_excluded_combinations_are_left_out():
    template = read(
        '{"parameters": {"BLOCK": [512, 1024], "RATE": [1.5, 2.5]}, "exclude": [{"BLOCK": 512, "RATE": 1.5}]}'
    )
    assert template.excludes({"BLOCK": 512, "RATE": 1.5}) and not template.excludes({"BLOCK": 512, "RATE": 2.5})
    found = fan_out(SOURCE, template, 10, random.Random(0))
    words = [said for _, said in found[1:]]
    assert len(words) == 3 and "BLOCK = 512; RATE = 1.5" not in words


@pytest.mark.parametrize("excluded", ['{"BLOCK": 1}', '[{"OTHER": 1}]', "[{}]", '[{"BLOCK": [1]}]', "[3]"])
def test_exclusions_that_say_nothing_are_refused(excluded):
    with pytest.raises(UnusableAnswer) as raised:
        read(f'{{"parameters": {{"BLOCK": [1]}}, "exclude": {excluded}}}')
    assert raised.value.fault is AnswerFault.BAD_TEMPLATE
