"""The space that a landscape is recorded of: templates that rules make of an operator's seeds, times parameters.

Everything is drawn with chance of a fixed seed, so that the space is the same on every machine and a recording that
was cut short goes on where it ended.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from service.emitters.parameters import TunableParameter
from service.emitters.rules import RULES
from service.emitters.tune import read, write
from service.operators.sources import normalise
from workers.landscape import RecordedTemplate, text_digest
from workers.protocol import Operator

DEPTH = 2
"""Rules one after the other that lead from a seed to a template."""
WORTHWHILE = {
    "num_warps": (1, 2, 4, 8, 16, 32),
    "num_stages": (1, 2, 3, 4),
    "maxnreg": (64, 80, 96, 128, 168, 255),
    "programs_per_sm": (1, 2, 4, 8, 16),
    "ROWS": (1, 2, 4, 8, 16),
    "RUN": (1, 2, 4, 8, 16),
    "GROUP": (1, 4, 8, 16),
}
"""Values that are recorded, by the end of a parameter's name: of a ladder's rungs those that are not hopeless."""
ROW_TILES = (256, 512, 1024, 2048, 4096, 8192, 16384)
DOT_TILES = (32, 64, 128, 256)
POINTS_A_TEMPLATE = 256
"""Most points of one template, so that no large one crowds out the others."""


@dataclass(frozen=True)
class ParameterPoint:
    """One source: a template with values for some of its parameters; the others are as they stand in the template."""

    operator: str
    template: RecordedTemplate
    values: Mapping[str, int]


@dataclass(frozen=True)
class RenderedPoint:
    """A point's text and its digest, with the values of all parameters."""

    point: ParameterPoint
    source: str
    digest: str
    parameters: Mapping[str, int]


def templates(operator: Operator, target: str) -> list[RecordedTemplate]:
    """The seeds, and what up to `DEPTH` rules make of them, no two with the same structure; the shortest ways first."""
    found: dict[str, RecordedTemplate] = {}
    front = [("seed" if index == 0 else f"seed {index}", seed) for index, seed in enumerate(operator.seeds)]
    for depth in range(DEPTH + 1):
        fresh = []
        for path, source in front:
            shape = _structure(source, target)
            if shape not in found:
                found[shape] = RecordedTemplate(id=text_digest(shape)[:12], path=path, source=source)
                fresh.append((path, source))
        front = [
            (f"{path} + {name}", changed)
            for path, source in fresh
            for name, rule in RULES.items()
            if depth < DEPTH and (changed := rule.rewrite(source, random.Random(f"{path} {name}"))) is not None
        ]
    return list(found.values())


def ladder(parameter: TunableParameter) -> Sequence[int]:
    """Values of a parameter that are recorded; its own is always among them."""
    known = next((values for end, values in WORTHWHILE.items() if parameter.name.split(".")[-1].startswith(end)), None)
    if known is None:
        known = DOT_TILES if max(parameter.ladder) <= DOT_TILES[-1] else ROW_TILES
    own = () if parameter.value is None else (parameter.value,)
    return sorted({value for value in known if value in parameter.ladder} | set(own))


def points(operator: Operator, target: str) -> Iterator[ParameterPoint]:
    """The whole space: every template as it is first, then all their other points, mixed. Some have equal texts."""
    found = templates(operator, target)
    mixed = [
        ParameterPoint(operator.name, template, values) for template in found for values in _grid(template, target)
    ]
    random.Random(f"points of {operator.name}").shuffle(mixed)
    yield from (ParameterPoint(operator.name, template, {}) for template in found)
    yield from mixed


def written(point: ParameterPoint, target: str) -> RenderedPoint:
    """Write a point down, in some ten milliseconds. A template as it is keeps its text, and is looked up by it."""
    found = read(point.template.source, target)
    own = {item.name: item.value for item in found if item.value is not None}
    source = write(point.template.source, target, point.values) if point.values else point.template.source
    return RenderedPoint(point, source, text_digest(source), {**own, **point.values})


def _structure(source: str, target: str) -> str:
    """Return the structure of a source: its normal form with all parameters at their lowest values."""
    return normalise(write(source, target, {item.name: item.ladder[0] for item in read(source, target)}))


def _grid(template: RecordedTemplate, target: str) -> list[dict[str, int]]:
    """Points of one template: all of them, or as many drawn."""
    names = [(item.name, ladder(item)) for item in read(template.source, target)]
    if prod(len(values) for _, values in names) <= POINTS_A_TEMPLATE:
        chosen = itertools.product(*(values for _, values in names))
        return [dict(zip((name for name, _ in names), values, strict=True)) for values in chosen]
    rng = random.Random(template.id)
    return [{name: rng.choice(values) for name, values in names} for _ in range(POINTS_A_TEMPLATE)]
