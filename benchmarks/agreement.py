"""Confirmed elites judged twice in one session: confirmed again by executors, and timed by the independent harness.

    python -m benchmarks.as_run softmax rmsnorm cross_entropy --seconds 60 --keep kept    # or `reef export` of searches
    python -m benchmarks.agreement kept/*.zip --most 17 --out results --seconds 0.3

It makes `independent.json`. The confirm is the one of a search: the bundle of the elite's certificate, from scratch, on
content that is used once, beside the seed. The harness is `benchmarks/independent_harness.py`, in a process of its own
that imports nothing of Kernelreef: it compiles the exported source itself and times it in CUDA graphs with cold inputs.
Both see the same card within minutes, and nothing else runs then. What is compared is the speedup over the seed.

`difference_percent` is the harness's over ours, less 1. `explained` says what a difference rests on:
`within`: it is at most 0.5 %. `interval`: the 95 % intervals of both overlap. `fixed`: a sample of ours has few calls
and so a larger part that does not depend on the kernel, its start and end; with that part taken off both sides, the
difference is at most 0.5 %. The part is the median, over all elites at a shape, of what the seed takes longer here than
in the harness: the elite's own times have no say in it. `open`: none of these.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import FigureRows, Row, device_of, visible_card
from benchmarks.record import RESULTS
from service.certificates.document import Certificate, read
from tests.gpu.benches import Team, answers, cores, measuring
from workers.options import cache_home
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    CardShare,
    ConfirmJob,
    Device,
    Graph,
    Outcome,
    Report,
    TraceJob,
    TraceReport,
)

HARNESS = Path(__file__).parent / "independent_harness.py"
HARNESS_S = 600
"""Seconds for the harness; fifty elites at two shapes took under two minutes on an H100."""
CLOSE_PERCENT = 0.5
"""Difference that needs no explanation: the practical margin."""
Key = tuple[str, str]
"""Operator and shape."""


def confirmed(archive: Path, most: int | None = None) -> Iterator[Certificate]:
    """Yield the certificates of a zip file whose verdict is a measured confirm; of so many elites, the best first."""
    with zipfile.ZipFile(archive) as file:
        best = None if most is None else _best(json.loads(file.read("manifest.json")), most)
        for name in sorted(file.namelist()):
            if name.endswith("/certificate.json") and (best is None or name.rpartition("/")[0] in best):
                found = read(file.read(name)).certificate
                if found.device.measures and found.verdict.kind == "confirm":
                    yield found


def _best(manifest: Mapping[str, Any], most: int) -> set[str]:
    """Return the folders of the measured elites with the largest objectives, which the harness takes too."""
    measured = [each for each in manifest["devices"] if each["provenance"] == "measured"]
    elites = [elite for each in measured for elite in each["elites"]]
    elites.sort(key=lambda elite: -float(elite["objective"]))
    return {elite["files"][0].rpartition("/")[0] for elite in elites[:most]}


def graphs_of(certificates: Sequence[Certificate], target: str) -> dict[str, tuple[Graph, ...]]:
    """Export the reference of each operator at the shapes of its certificates, by the operator's digest.

    Raises:
        SystemExit: If one cannot be exported.
    """
    first = {each.operator_digest: each for each in reversed(certificates)}
    jobs = {
        digest: TraceJob(
            id=digest, search="agreement", operator=each.operator, shapes=each.shapes, target=target, deadline_s=120
        )
        for digest, each in first.items()
    }
    found = {}
    for digest, answer in answers(jobs):
        if not isinstance(answer, TraceReport) or not answer.graphs:
            raise SystemExit(f"the reference of {first[digest].operator.name} cannot be exported: {answer}")
        found[digest] = answer.graphs
    return found


def confirm_job(certificate: Certificate, graphs: tuple[Graph, ...], device: Device) -> ConfirmJob:
    """Return the confirm of an elite beside the seed."""
    return ConfirmJob(
        id=certificate.origin.candidate,
        search="agreement",
        candidate=certificate.origin.candidate,
        variant=certificate.origin.variant,
        challenger=certificate.bundle,
        operator=certificate.operator,
        graphs=graphs,
        device=device,
        pacer=certificate.pacer,
    )


def confirm_again(
    certificates: Sequence[Certificate], device: Device, card: int, sharers: int, data: Path
) -> Iterator[tuple[Certificate, Answer]]:
    """Confirm elites, several beside each other as in a search."""
    graphs = graphs_of(certificates, device.target)
    jobs = [confirm_job(each, graphs[each.operator_digest], device) for each in certificates]
    with (
        closing(Team(measuring(device, CardShare(card, sharers), data), MEASURED_DEADLINE_S)) as team,
        ThreadPoolExecutor(sharers) as pool,
    ):
        yield from zip(certificates, pool.map(team.ask, jobs), strict=True)


def timed_outside(archives: Sequence[Path], seconds: float, most: int, card: int) -> dict[str, Mapping[str, Any]]:
    """Run the harness on a card. Returns its rows by candidate.

    Raises:
        SystemExit: If it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "harness.json"
        command = [sys.executable, "-I", str(HARNESS), *(str(each.resolve()) for each in archives)]
        command += ["--seconds", str(seconds), "--most", str(most), "--processes", str(cores())]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": visible_card(card)}
        done = subprocess.run([*command, "--out", str(out)], timeout=HARNESS_S, check=False, env=environment)
        if done.returncode:
            raise SystemExit(f"the harness ended with status {done.returncode}")
        return {row["candidate"]: row for row in json.loads(out.read_text())["rows"]}


def compared(certificate: Certificate, answer: Answer, outside: Mapping[str, Any] | None) -> Row:
    """Return the row of an elite, without an explanation."""
    then = certificate.verdict.over_pacer
    row: Row = {
        "operator": certificate.operator.name,
        "cell": certificate.place.cell if certificate.place else None,
        "candidate": certificate.origin.candidate,
        "then": then.model_dump() if then else None,
        "ours": None,
        "independent": None,
        "difference_percent": None,
        "shapes": {},
    }
    if not isinstance(answer, Report) or answer.outcome is not Outcome.CORRECT or answer.over_pacer is None:
        return row | {"failed": str(getattr(answer, "reason", "") or getattr(answer, "error", ""))[:200]}
    row["ours"] = answer.over_pacer.model_dump()
    if outside is None or not outside.get("independent"):
        return row | {"failed": "the harness: " + str((outside or {}).get("error", "no row"))[:200]}
    weights = {shape.key: shape.weight for shape in certificate.shapes}
    for result in answer.shapes:
        if (timed := outside["shapes"].get(result.shape)) and result.samples:
            row["shapes"][result.shape] = {
                "weight": weights[result.shape],
                "calls": result.samples.calls,
                "elite_us": median(result.samples.candidate_us),
                "seed_us": median(result.samples.other_us),
                "harness": timed,
            }
    weight = sum(each["weight"] for each in row["shapes"].values())
    bounds = {
        end: math.exp(sum(each["weight"] * math.log(each["harness"][end]) for each in row["shapes"].values()) / weight)
        for end in ("low", "ratio", "high")
    }
    row["independent"] = {"low": bounds["low"], "mid": bounds["ratio"], "high": bounds["high"]}
    row["difference_percent"] = 100 * (bounds["ratio"] / answer.over_pacer.mid - 1)
    return row


def fixed_parts(rows: Sequence[Mapping[str, Any]]) -> dict[Key, float]:
    """Return what a call of the seed takes longer here than in the harness, in microseconds by operator and shape."""
    found: dict[Key, list[float]] = defaultdict(list)
    for row in rows:
        for shape, each in row["shapes"].items():
            found[row["operator"], shape].append(each["seed_us"] - each["harness"]["seed_us"])
    return {key: median(parts) for key, parts in found.items()}


def explained(row: Mapping[str, Any], fixed: Mapping[Key, float]) -> Row:
    """Return what a row's difference rests on, and the difference without the fixed part of samples."""
    if row["difference_percent"] is None:
        return {"explained": None}
    logs, weight = 0.0, 0.0
    for shape, each in row["shapes"].items():
        part = fixed[row["operator"], shape]
        logs += each["weight"] * math.log((each["seed_us"] - part) / (each["elite_us"] - part))
        weight += each["weight"]
    without = 100 * (row["independent"]["mid"] / math.exp(logs / weight) - 1)
    ours, its = row["ours"], row["independent"]
    if abs(row["difference_percent"]) <= CLOSE_PERCENT:
        why = "within"
    elif its["low"] <= ours["high"] and ours["low"] <= its["high"]:
        why = "interval"
    else:
        why = "fixed" if abs(without) <= CLOSE_PERCENT else "open"
    return {"explained": why, "without_fixed_percent": without}


def tally_rows(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Count the rows by explanation."""
    apart = [row["difference_percent"] for row in rows if row["difference_percent"] is not None]
    again = [100 * (row["ours"]["mid"] / row["then"]["mid"] - 1) for row in rows if row["ours"] and row["then"]]
    counts = {why: sum(row["explained"] == why for row in rows) for why in ("within", "interval", "fixed", "open")}
    return {
        "elites": len(rows),
        "compared": len(apart),
        **counts,
        "median_percent": median(apart) if apart else None,
        "largest_percent": max(apart, key=abs, default=None),
        "median_change_percent": median(map(abs, again)) if again else None,
    }


def main() -> None:
    """Make `independent.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archives", nargs="+", type=Path, help="zip files that `reef export` wrote")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options.add_argument("--seconds", type=float, default=0.5, help="of the harness's pairs, per elite and shape")
    options.add_argument("--most", type=int, help="elites per archive, the best first; all if not given")
    options.add_argument("--executors", type=int, default=3, help="that share the card while elites are confirmed")
    options.add_argument("--data", type=Path, default=cache_home(), help="where baselines are kept")
    options.add_argument("--card", type=int, default=0)
    chosen = options.parse_args()
    device, figures = device_of(chosen.card), FigureRows(chosen.out, "independent", chosen.card)
    certificates = [each for archive in chosen.archives for each in confirmed(archive, chosen.most)]
    most = chosen.most or len(certificates)
    outside = timed_outside(chosen.archives, chosen.seconds, most, chosen.card)
    answered = confirm_again(certificates, device, chosen.card, chosen.executors, chosen.data)
    rows = []
    for certificate, answer in answered:
        row = compared(certificate, answer, outside.get(certificate.origin.candidate))
        said = {name: row[name] for name in ("operator", "cell", "difference_percent")}
        figures.add(row, json.dumps(said | ({"failed": row["failed"]} if "failed" in row else {})))
        rows.append(row)
    fixed = fixed_parts(rows)
    for row in rows:  # The same rows as those of the file.
        row |= explained(row, fixed)
    parts = {f"{operator} {shape}": us for (operator, shape), us in fixed.items()}
    figures.conclude(agreement=tally_rows(rows), fixed_us=parts)
    print(json.dumps(tally_rows(rows)))


if __name__ == "__main__":
    main()
