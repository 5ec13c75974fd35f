"""The constants that verdicts and figures hang on, read out of the sources, beside those of the protocol's version.

    python -m tests.workers.protocol.deciding

writes `deciding.json` anew. `test_base` holds the sources against it, so that nobody moves a tolerance and forgets
that reports made before it would be reused.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from workers.protocol import PROTOCOL_VERSION

WORKERS = Path(__file__).parents[3] / "workers"
KEPT = Path(__file__).with_name("deciding.json")
DECIDING = (
    "assembler/ptx/lint.py",
    "assembler/ptx/ptxas.py",
    "checks",
    "devices/controls.py",
    "devices/cuda.py",
    "devices/examination.py",
    "devices/finalist_checks.py",
    "devices/measurement.py",
    "devices/paired_timing.py",
    "devices/selection.py",
    "devices/trial.py",
    "inputs.py",
    "interpreter/sampling.py",
    "memory_layout.py",
    "oracle/repetition.py",
    "predict.py",
    "protocol/job.py",
    "protocol/plan.py",
    "runner/rounds.py",
    "timing.py",
)
"""Where they are. Other modules have constants of memory, patience and shape, on which no verdict depends."""
PLAIN = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.Dict, ast.Name, ast.Load)


def deciding() -> dict[str, str]:
    """Numbers that are named in capitals, but for seconds: what they are, by module and name; and a line a check."""
    modules = sorted(module for place in DECIDING for module in _modules(WORKERS / place))
    found = {f"{_name(module)}.{name}": value for module in modules for name, value in _constants(module)}
    return {**found, **{f"{_name(module)}": "a module" for module in modules if module.parent.name == "checks"}}


def kept() -> dict[str, object]:
    """What was written for the version that is named in it."""
    return dict(json.loads(KEPT.read_text()))


def write() -> None:
    """Keep what the sources say, for the version that they name."""
    KEPT.write_text(json.dumps({"protocol_version": PROTOCOL_VERSION, "deciding": deciding()}, indent=1) + "\n")


def _modules(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _name(module: Path) -> str:
    return module.relative_to(WORKERS).with_suffix("").as_posix().replace("/", ".")


def _constants(module: Path) -> Iterator[tuple[str, str]]:
    for statement in ast.parse(module.read_text()).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None and _is_plain(statement):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            name, said = ast.unparse(target), ast.unparse(statement.value)
            if name.isupper() and not name.endswith("_S") and any(character.isdigit() for character in said):
                yield name, said


def _is_plain(statement: ast.Assign | ast.AnnAssign) -> bool:
    return all(isinstance(part, PLAIN) for part in ast.walk(statement.value or statement))


if __name__ == "__main__":
    write()
