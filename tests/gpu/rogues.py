"""Kernels that cheat or are wrong on the device: one a file, which says about itself what should become of it.

    \"\"\"What it does, in a sentence.

    operator: rmsnorm                     the catalogue's operator that it pretends to compute
    on a card: wrong_result, precision    outcomes of which any will do
    at: check, time                       stages at which that may be found out; none for `correct`
    stopped by: …                         what stands in its way
    on model: wrong_result                outcomes on a `model` device; `correct` where it cannot know
    \"\"\"

A rogue whose outcome is `correct` must have won nothing by its cheat: what it gains for sure, over all shapes, may be
no more than what a promotion asks for.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

from workers.protocol import PRACTICAL_MARGIN, Bundle, Outcome, Report, Stage
from workers.timing import estimate, weighted

FOLDER = Path(__file__).parents[1] / "workers" / "rogues" / "device"
MOST_GAIN = 1 + PRACTICAL_MARGIN
"""Speed of a rogue that is correct over that of its seed, for sure and over all shapes: more would be promoted."""
_FIELD = re.compile(r"^(operator|on a card|at|stopped by|on model): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Rogue:
    """One rogue.

    Attributes:
        name: Its file's.
        source: Its text.
        cheat: What it does.
        operator: Name of what it pretends to compute.
        outcomes: On a card, any of them.
        stages: Where that may be found out.
        stopped_by: What stands in its way.
        on_model: Outcomes on a `model` device, any of them.
    """

    name: str
    source: str
    cheat: str
    operator: str
    outcomes: frozenset[Outcome]
    stages: frozenset[Stage]
    stopped_by: str
    on_model: frozenset[Outcome]

    @property
    def is_traced(self) -> bool:
        """Whether there is a bundle to judge: types of matrix instructions are looked at when a trace is assembled."""
        by_types = self.outcomes <= {Outcome.PRECISION} and self.stages <= {Stage.ASSEMBLE}
        return not (self.outcomes <= {Outcome.COMPILE_ERROR} or by_types)


@cache
def load_rogues() -> dict[str, Rogue]:
    """All of them, by name.

    Raises:
        KeyError: If a file leaves a field out.
        ValueError: If it names an outcome or a stage that there is not.
    """
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.py"))}


def sure_gain(report: Report, bundle: Bundle) -> float:
    """The seed's time over the bundle's, by the lower end of the interval over all shapes; 0 if it was not timed."""
    races = [shape.samples for shape in report.shapes if shape.samples is not None]
    if not races:
        return 0.0
    gains = [
        estimate([log(its / mine) for mine, its in zip(race.candidate_us, race.other_us, strict=True)])
        for race in races
    ]
    return weighted(gains, [plan.shape.weight for plan in bundle.benchmarks]).bounds()[0]


def _read(path: Path) -> Rogue:
    source = path.read_text()
    text = ast.get_docstring(ast.parse(source)) or ""
    said = dict(_FIELD.findall(text))
    return Rogue(
        name=path.stem,
        source=source,
        cheat=text.partition("\n")[0],
        operator=said["operator"],
        outcomes=frozenset(Outcome(word) for word in said["on a card"].split(", ")),
        stages=frozenset(Stage(word) for word in said.get("at", "").split(", ") if word),
        stopped_by=said["stopped by"],
        on_model=frozenset(Outcome(word) for word in said["on model"].split(", ")),
    )
