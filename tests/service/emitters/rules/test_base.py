import ast
import random

import pytest

from service.emitters.rules.base import MAX_NODES, Rule, is_readable
from service.operators.sources import parse


class Increment(Rule[ast.Constant]):
    name = "increment"
    meaning = "add one to a number"

    def sites(self, module):
        return [node for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, int)]

    def change(self, site, rng):
        site.value += 1


def test_one_place_is_changed_at_random():
    source = '"""A text."""\nx = [1, 2, 3]\n'
    found = {Increment().rewrite(source, random.Random(draw)) for draw in range(20)}
    assert found == {"x = [2, 2, 3]\n", "x = [1, 3, 3]\n", "x = [1, 2, 4]\n"}


def test_no_place_no_source():
    assert Increment().rewrite("x = y", random.Random(0)) is None
    assert Increment().rewrite("x = (", random.Random(0)) is None


@pytest.mark.parametrize(
    ("code", "readable"),
    [
        ("tl.load(p, mask=m)", True),
        ("tl.load(pointer=p)", False),
        ("tl.load(*p)", False),
        ("tl.store(p)", False),
        ("tl.arange(8)", False),
        ("other.load()", True),
    ],
)
def test_calls_must_be_written_in_the_usual_way(code, readable):
    assert is_readable(parse(code)) is readable


def test_very_long_sources_are_left_alone():
    assert not is_readable(parse("x = 1\n" * MAX_NODES))
