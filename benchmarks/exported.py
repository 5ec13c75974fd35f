"""Symbolic plans of all seeds in the catalogue: equal to plain traces, share of shapes served, compiled kernels.

    python -m benchmarks.exported                       # all seeds, 1,000 shapes each: a few minutes on two cores
    python -m benchmarks.exported --operators softmax   # some operators, in place of their older rows
    python -m benchmarks.exported --card rows           # adds what `benchmarks.exported_card` wrote on a card
    python -m benchmarks.exported --session folder      # adds an unpacked `packages.tar.xz` of `exported_session`

A row a seed. `compared`: shapes traced plainly, log-uniform in the ranges, a third of the sizes not divisible by 16;
`equal`: those where a symbolic plan admits the shape and equals the plain trace in every field; `differs`: the first
difference, which would drop a plan; `served_share`: share of the shapes that the functions of an exported module serve
with at most 64 compiled kernels; `kernels`: how many of them there are, counted before compiling, where equal machine
code counts twice. Nothing is compiled, judged or timed here: `benchmarks.exported_card` does that with packages. Its
rows name their card, versions and date; they replace older ones of the same operator and card and of the same kind:
of a package, of its `rivals`, or of its export (`export_s`: its wall seconds beside searches and other exports).
`host_more_us`: median of how much longer the host takes at a shape than for a plain launch. `unsearched`: shapes that
the export judged and the search did not; `left_out_loss`: mean loss at timed shapes, predicted by the others.
"""

import argparse
import json
import re
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import record
from service.export.sampling import sample
from service.export.variants import choose_functions
from service.operators.catalogue import load_catalogue, load_operator
from service.operators.shapes import all_shapes
from workers import trace_job
from workers.protocol import Operator, TraceJob

SEED = 7
ROOT = Path(__file__).parents[1]
OF_A_USER = ROOT / "examples/relu2_gate"
"""Operator as a user writes one."""


def seeds(operators: list[str]) -> Iterator[tuple[Operator, str, str]]:
    """Each operator with the name and the text of each of its seeds."""
    known = load_catalogue() | {OF_A_USER.name: load_operator(OF_A_USER)}
    for name, operator in sorted(known.items()):
        folders = (ROOT / "operators" / name / "seeds").glob("*.py")
        paths = OF_A_USER.glob("seed.py") if name == OF_A_USER.name else folders
        for path in sorted(paths) if name in operators or not operators else ():
            yield operator, path.stem, path.read_text()


def row(operator: Operator, seed: str, source: str, count: int) -> dict[str, object]:
    """Trace one seed."""
    # Twice as many are drawn, because those beyond a card's memory and repeated ones are left out.
    shapes = sample(operator, all_shapes(operator, SEED), compared=2 * count).all[:count]
    job = TraceJob(
        id="b", search="b", operator=operator, shapes=shapes, target="sm_90", source=source, symbolic={}, deadline_s=300
    )
    report = trace_job.trace(job, "benchmark")
    functions = choose_functions(report.symbolic, [shape.dims for shape in shapes])
    served = [any(function.admits(shape.dims) for function in functions) for shape in shapes]
    return {
        "operator": operator.name,
        "seed": seed,
        "compared": len(shapes),
        "equal": report.admitted,
        "differs": report.reason,
        "symbolic_plans": len(report.symbolic),
        "served_share": round(sum(served) / len(shapes), 4),
        "functions": len(functions),
        "kernels": len(frozenset[object]().union(*(function.kernels for function in functions))),
        "trace_s": round(report.stages_s.get("trace", 0.0), 2),
    }


def from_card(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of a card, without the times that their ratios come from."""
    found = []
    for path in sorted(folder.glob("*.json")):
        told = json.loads(path.read_text())
        row = {name: value for name, value in told["row"].items() if name not in ("times", "device")}
        more = [each["host_us"] - each["plain_us"] for each in told["row"].get("times", ()) if each.get("plain_us")]
        if more:
            row["host_more_us"] = statistics.median(more)
        if "rivals" in row:
            row["rivals"] = [_told_of(each) for each in row["rivals"]]
        subject = {"operator": row.pop("operator"), "card": told["card"]}
        found.append({**subject, **row, "date": _date(path), **told["versions"]})
    return found


def from_session(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of a session on a card, and what its exports took and said, also those of unchecked packages."""
    rows = from_card(folder / "rows")
    versions = {name: rows[0][name] for name in ("card", "torch", "triton", "python")} if rows else {}
    for path in sorted((folder / "told").glob("export_*.json")):
        told = json.loads(path.read_text())
        if "failed" in told:
            continue
        search = json.loads((path.parent / f"search_{told['operator']}.json").read_text())
        found = {"operator": told["operator"], "card": search["device"], "evaluated": search["evaluated"]} | versions
        readme = " ".join([*told["unsearched"], *told["loss"], *told["kernels"]])
        judged = re.findall(r"at (\d+) shapes that its search did not judge, and was right at (\d+)", readme)
        lost = re.search(r"loses ([\d.]+) %", readme)
        unsearched, right = (sum(map(int, each)) for each in zip(*judged, strict=True)) if judged else (0, 0)
        proofs = sorted((folder / "packages" / told["operator"]).glob("*/certificates/*.json"))
        kept = [json.loads(proof.read_text()) for proof in proofs if not proof.stem.endswith("_functions")]
        said = {
            "emitters": [proof["origin"]["emitter"] for proof in kept],
            "export_s": told["wall_s"],
            "stages_s": told["stages_s"],
            "unsearched": unsearched,
            "unsearched_right": right,
            "kernels": sum(map(int, re.findall(r"(\d+) compiled kernels", readme))),
            "left_out_loss": None if lost is None else round(float(lost[1]) / 100, 4),
            "refusals": told["refusals"],
        }
        rows.append({**found, **said, "date": _date(path)})
    return rows


def _told_of(rival: dict[str, Any]) -> dict[str, Any]:
    """Leave out the speedup of a rival's search if it may be over the seed kernel or over the best baseline."""
    dropped = {"source", "operator", "state", "reason", *(() if "relative_to" in rival else ("speedup",))}
    return {name: value for name, value in rival.items() if name not in dropped}


def _date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()


def add(rows: list[dict[str, Any]], path: Path) -> None:
    """Add rows to a result file; older ones of the same operator, seed, card and kind go."""
    document = json.loads(path.read_text())
    new = {_subject(row) for row in rows}
    document["rows"] = [row for row in document["rows"] if _subject(row) not in new] + rows
    path.write_text(json.dumps(document, indent=1) + "\n")


def _subject(row: dict[str, Any]) -> tuple[str | None, ...]:
    kind = next((name for name in ("rivals", "export_s") if name in row), None)
    return row["operator"], row.get("seed"), row.get("card"), kind


def main() -> None:
    """Trace all seeds, and write `exported.json`; or add the rows of a card to it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", nargs="*", default=[])
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=record.RESULTS)
    parser.add_argument("--card", type=Path)
    parser.add_argument("--session", type=Path)
    asked = parser.parse_args()
    if asked.card is not None:
        return add(from_card(asked.card), asked.out / "exported.json")
    if asked.session is not None:
        return add(from_session(asked.session), asked.out / "exported.json")
    rows = []
    for operator, seed, source in seeds(asked.operators):
        rows.append(row(operator, seed, source, asked.shapes))
        print(*rows[-1].values(), flush=True)
    if asked.operators:  # Others stay as they are.
        today = datetime.now(UTC).date().isoformat()
        return add([{**each, "date": today} for each in rows], asked.out / "exported.json")
    print(record.write("exported", rows, asked.out))


if __name__ == "__main__":
    main()
