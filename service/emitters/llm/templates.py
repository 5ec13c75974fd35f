"""Parameter templates: a file that runs as it is, and values to try for some of its module-level constants."""

import ast
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer
from service.emitters.llm.fences import FencedBlock
from service.operators.sources import parse, walk

PARAMETERS, VALUES, EXCLUDED = 8, 32, 64
"""Maximum numbers of parameters in a template, of values for one, and of excluded combinations."""

Number = bool | int | float


@dataclass(frozen=True)
class ParameterTemplate:
    """Values to try, by name of a module-level constant, and combinations that are left out.

    An excluded combination names some parameters with one value each; all combinations with these are left out.
    """

    parameters: Mapping[str, tuple[Number, ...]]
    excluded: tuple[Mapping[str, Number], ...] = ()

    @property
    def combinations(self) -> int:
        """Number of candidates that it stands for."""
        return math.prod(len(values) for values in self.parameters.values())

    def excludes(self, chosen: Mapping[str, Number]) -> bool:
        """Return True if a combination is left out."""
        return any(all(chosen[name] == value for name, value in each.items()) for each in self.excluded)


def read_template(blocks: Sequence[FencedBlock]) -> ParameterTemplate | None:
    """Return the template of an answer: its one JSON block with `parameters`; None if there is none.

    Raises:
        UnusableAnswer: If there are several, or an invalid one.
    """
    found = [document for block in blocks if "parameters" in (document := json_object(block.text))]
    if not found:
        return None
    if len(found) > 1:
        raise UnusableAnswer(AnswerFault.BAD_TEMPLATE, f"{len(found)} JSON blocks name parameters; one is allowed")
    given, excluded = found[0]["parameters"], found[0].get("exclude", [])
    if not isinstance(given, dict) or not 1 <= len(given) <= PARAMETERS:
        raise UnusableAnswer(
            AnswerFault.BAD_TEMPLATE, f"'parameters' must map 1 to {PARAMETERS} names to lists of values"
        )
    for name, values in given.items():
        if not isinstance(values, list) or not 1 <= len(values) <= VALUES or not all(map(_is_number, values)):
            raise UnusableAnswer(AnswerFault.BAD_TEMPLATE, f"'{name[:64]}' needs 1 to {VALUES} finite numbers to try")
    if not isinstance(excluded, list) or not all(_is_part(each, given) for each in excluded[:EXCLUDED]):
        raise UnusableAnswer(
            AnswerFault.BAD_TEMPLATE, "'exclude' must list objects that give parameters one value each"
        )
    parameters = {name: tuple(dict.fromkeys(values)) for name, values in given.items()}
    return ParameterTemplate(parameters, tuple(excluded[:EXCLUDED]))


def fan_out(source: str, template: ParameterTemplate, most: int, rng: random.Random) -> list[tuple[str, str]]:
    """Make up to `most` candidates of a template, the unchanged file first; each with its values in words.

    Raises:
        UnusableAnswer: If a parameter is no constant of the module, or assigned more than once.
    """
    places = {name: _place(source, name) for name in template.parameters}
    written = {name: ast.literal_eval(node) for name, node in places.items()}
    found = [(source, _in_words(written))]
    numbers = rng.sample(range(template.combinations), min(template.combinations, 4 * most))
    for number in numbers:
        chosen = _combination(template, number)
        if len(found) < most and chosen != written and not template.excludes(chosen):
            found.append((_with_values(source, places, chosen), _in_words(chosen)))
    return found


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text is, line breaks within its texts allowed; an empty one if it is none."""
    try:
        document = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_part(value: object, given: Mapping[str, object]) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and value.keys() <= given.keys()
        and all(map(_is_number, value.values()))
    )


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float) and math.isfinite(value)


def _place(source: str, name: str) -> ast.expr:
    """Return the expression that a module assigns to a constant."""
    module = parse(source)
    values = [
        item.value
        for item in module.body
        if isinstance(item, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in item.targets)
    ]
    stores = sum(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in walk(module)
    )
    if len(values) != 1 or stores != 1 or not _is_literal(values[0]):
        raise UnusableAnswer(
            AnswerFault.BAD_TEMPLATE, f"'{name[:64]}' is not a number that the module assigns once, at its top"
        )
    return values[0]


def _is_literal(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(value, ast.Constant) and isinstance(value.value, bool | int | float)


def _combination(template: ParameterTemplate, number: int) -> dict[str, Number]:
    """Return combination `number` of all; the last parameter changes fastest."""
    chosen: dict[str, Number] = {}
    for name, values in reversed(list(template.parameters.items())):
        number, place = divmod(number, len(values))
        chosen[name] = values[place]
    return {name: chosen[name] for name in template.parameters}


def _with_values(source: str, places: Mapping[str, ast.expr], chosen: Mapping[str, Number]) -> str:
    """Write other values into a text; all else stays, byte for byte."""
    lines = [line.encode() for line in source.split("\n")]
    for name, node in sorted(places.items(), key=lambda item: (item[1].lineno, item[1].col_offset), reverse=True):
        row, end = node.lineno - 1, node.end_col_offset
        lines[row] = lines[row][: node.col_offset] + repr(chosen[name]).encode() + lines[row][end:]
    return b"\n".join(lines).decode()


def _in_words(chosen: Mapping[str, Number]) -> str:
    return "; ".join(f"{name} = {value!r}" for name, value in chosen.items())
