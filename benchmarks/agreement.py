"""Confirmed elites judged twice in one session: confirmed again by executors, and timed by the independent harness.

    python -m benchmarks.as_run softmax rmsnorm cross_entropy --seconds 60 --keep kept    # or `reef export` of searches
    python -m benchmarks.agreement kept/*.zip --most 20 --slim benchmarks/results/elites  # what this needs of them
    python -m benchmarks.agreement benchmarks/results/elites/*.zip --out results --seconds 0.3

It makes `independent.json`. Elites and seeds are traced again, then confirmed as in a search: from scratch, on content
that is used once, beside the seed. The harness is `benchmarks/independent_harness.py`, in a process of its own that
imports nothing of Kernelreef: it compiles the exported source itself and times it in CUDA graphs with cold inputs.
Both see the same card within minutes, and nothing else runs then. What is compared is the speedup over the seed.

`difference_percent` is the harness's over ours, less 1, in long graphs. `sample_percent` is the same in the harness's
samples of as many calls as ours, after a flush that writes the same share. `explained` says what a difference rests on:
`within`: it is at most 0.5 %. `interval`: the 95 % intervals of both overlap. `sample`: in samples it is at most 0.5 %,
so that both harnesses say the same of one sample, and a long run differs from it. `open`: none of these.

`forms` says for each share that a flush can write how far the harness's samples are from its long graphs.
`seed_spread_percent` is the range of the seed's time in long graphs, over all elites at a shape: the elite beside it
should not matter.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import FigureRows, Row, device_of, visible_card
from benchmarks.record import RESULTS
from tests.gpu.benches import Team, answers, cores, measuring
from workers.options import cache_home
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    Bundle,
    CardShare,
    ConfirmJob,
    Device,
    Graph,
    Operator,
    Outcome,
    Ratio,
    Report,
    Shape,
    TraceJob,
    TraceReport,
)

HARNESS = Path(__file__).parent / "independent_harness.py"
HARNESS_S = 600
"""Seconds for the harness; fifty elites at two shapes took under two minutes on an H100."""
CLOSE_PERCENT = 0.5
"""Difference that needs no explanation: the practical margin."""
OUR_FORM = "all"
"""Share of our flush, as the harness names it."""
TRACE_S = 120.0
"""Seconds of processor time for a trace."""
SLIM = {
    "source": True,
    "configuration": True,
    "shapes": True,
    "bundle_digest": True,
    "device": True,
    "origin": {"candidate": True},
    "place": {"cell": True},
    "verdict": {
        "kind": True,
        "over_pacer": True,
        "shapes": {"shape": True, "mid_us": True, "samples": {"calls": True}},
    },
}
"""Fields of a certificate that this and the harness read."""


@dataclass(frozen=True)
class ConfirmedElite:
    """A confirmed elite of a zip file.

    Attributes:
        operator: Its operator.
        candidate: Name of its candidate.
        cell: Its cell, if it holds one.
        source: Its source.
        configuration: Its autotune configuration.
        shapes: Shapes that it was checked at.
        bundle_digest: Identity of the bundle that was confirmed.
        then: Speedup over the seed in that confirm.
    """

    operator: Operator
    candidate: str
    cell: int | None
    source: str
    configuration: Mapping[str, Any]
    shapes: tuple[Shape, ...]
    bundle_digest: str
    then: Ratio | None


@dataclass(frozen=True)
class TracedElite:
    """An elite with the bundles and reference graphs of its confirm."""

    elite: ConfirmedElite
    bundle: Bundle
    pacer: Bundle
    graphs: tuple[Graph, ...]


def certificates(file: zipfile.ZipFile, most: int | None = None) -> Iterator[tuple[str, Row]]:
    """Yield names and certificates of measured confirms in a zip file; of so many elites, the best first."""
    best = None if most is None else _best(json.loads(file.read("manifest.json")), most)
    for name in sorted(file.namelist()):
        if name.endswith("/certificate.json") and (best is None or name.rpartition("/")[0] in best):
            found = json.loads(file.read(name))
            if Device.parse(found["device"]).measures and found["verdict"]["kind"] == "confirm":
                yield name, found


def confirmed(archive: Path, most: int | None = None) -> Iterator[ConfirmedElite]:
    """Yield the elites of a zip file whose verdict is a measured confirm; of so many elites, the best first."""
    with zipfile.ZipFile(archive) as file:
        operator = Operator.model_validate_json(file.read("operator.json"))
        for _, found in certificates(file, most):
            then = found["verdict"]["over_pacer"]
            yield ConfirmedElite(
                operator=operator,
                candidate=found["origin"]["candidate"],
                cell=(found["place"] or {}).get("cell"),
                source=found["source"],
                configuration=found["configuration"],
                shapes=tuple(Shape.model_validate(shape) for shape in found["shapes"]),
                bundle_digest=found["bundle_digest"],
                then=Ratio.model_validate(then) if then else None,
            )


def write_slim(archive: Path, folder: Path, most: int | None = None) -> Path:
    """Write a zip file with only what this and the harness read of another one. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as file:
        operator = file.read("operator.json")
        kept = dict(certificates(file, most))
        manifest = json.loads(file.read("manifest.json"))
    devices = [
        {
            "provenance": device["provenance"],
            "elites": [
                {**{name: elite[name] for name in ("cell", "candidate", "objective")}, "files": [place]}
                for elite in device["elites"]
                if (place := f"{elite['files'][0].rpartition('/')[0]}/certificate.json") in kept
            ],
        }
        for device in manifest["devices"]
    ]
    documents = {"manifest.json": {"devices": devices}} | {name: _picked(each, SLIM) for name, each in kept.items()}
    path = folder / f"{json.loads(operator)['name']}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in {"operator.json": operator.decode(), **_texts(documents)}.items():
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def _texts(documents: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(document, separators=(",", ":")) for name, document in documents.items()}


def _picked(document: Any, wanted: Any) -> Any:
    """Return the wanted fields of a document; of a list, those of its items."""
    if wanted is True or document is None:
        return document
    if isinstance(document, list):
        return [_picked(item, wanted) for item in document]
    return {name: _picked(document[name], inner) for name, inner in wanted.items()}


def _best(manifest: Mapping[str, Any], most: int) -> set[str]:
    """Return the folders of the measured elites with the largest objectives, which the harness takes too."""
    measured = [each for each in manifest["devices"] if each["provenance"] == "measured"]
    elites = [elite for each in measured for elite in each["elites"]]
    elites.sort(key=lambda elite: -float(elite["objective"]))
    return {elite["files"][0].rpartition("/")[0] for elite in elites[:most]}


def traced(elites: Sequence[ConfirmedElite], target: str) -> Iterator[TracedElite | tuple[ConfirmedElite, str]]:
    """Trace elites, seeds and references. Yields each elite with its bundles, or with the reason why it has none."""
    jobs: dict[str, TraceJob] = {}
    for elite in elites:
        operator = without_baselines(elite.operator)
        common: dict[str, Any] = {
            "search": "agreement",
            "operator": operator,
            "target": target,
            "deadline_s": TRACE_S,
        }
        every, timed = elite.shapes, tuple(shape for shape in elite.shapes if shape.role == "benchmark")
        for name, source, shapes in (
            (elite.candidate, elite.source, every),
            (f"{elite.operator.digest}:seed", elite.operator.seeds[0], timed),
            (f"{elite.operator.digest}:reference", None, every),
        ):
            jobs[name] = TraceJob(id=name, source=source, shapes=shapes, **common)
    reports = dict(answers(jobs))
    for elite in elites:
        own, seed = reports[elite.candidate], reports[f"{elite.operator.digest}:seed"]
        reference = reports[f"{elite.operator.digest}:reference"]
        bundle, pacer = _bundle(own, elite.configuration), _bundle(seed)
        if bundle and pacer and isinstance(reference, TraceReport) and reference.graphs:
            yield TracedElite(elite, bundle, pacer.reduced(), reference.graphs)
        else:
            answer = own if bundle is None else seed if pacer is None else reference
            yield elite, "not traced: " + _said(answer)


def without_baselines(operator: Operator) -> Operator:
    """Return an operator whose confirms wait for eager PyTorch alone: no figure of another baseline is compared."""
    return operator.model_copy(update={"baselines": ()})


def _bundle(answer: Answer, configuration: Mapping[str, Any] | None = None) -> Bundle | None:
    """Return the bundle of a variant: the one with a configuration, or the first."""
    variants = answer.variants if isinstance(answer, TraceReport) else ()
    bundles = (variant.bundle for variant in variants if variant.bundle is not None)
    return next((each for each in bundles if configuration is None or each.configuration == configuration), None)


def _said(answer: Answer) -> str:
    return str(getattr(answer, "reason", "") or getattr(answer, "error", ""))[:200]


def confirm_job(traced: TracedElite, device: Device) -> ConfirmJob:
    """Return the confirm of an elite beside the seed."""
    return ConfirmJob(
        id=traced.elite.candidate,
        search="agreement",
        candidate=traced.elite.candidate,
        variant=0,
        challenger=traced.bundle,
        operator=without_baselines(traced.elite.operator),
        graphs=traced.graphs,
        device=device,
        pacer=traced.pacer,
    )


def confirm_again(
    elites: Sequence[TracedElite], device: Device, card: int, sharers: int, data: Path
) -> Iterator[tuple[TracedElite, Answer]]:
    """Confirm elites, several beside each other as in a search."""
    jobs = [confirm_job(each, device) for each in elites]
    with (
        closing(Team(measuring(device, CardShare(card, sharers), data), MEASURED_DEADLINE_S)) as team,
        ThreadPoolExecutor(sharers) as pool,
    ):
        yield from zip(elites, pool.map(team.ask, jobs), strict=True)


def timed_outside(archives: Sequence[Path], seconds: float, most: int, card: int, out: Path) -> None:
    """Run the harness on a card.

    Raises:
        SystemExit: If it fails.
    """
    command = [sys.executable, "-I", str(HARNESS), *(str(each.resolve()) for each in archives)]
    command += ["--seconds", str(seconds), "--most", str(most), "--processes", str(cores())]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": visible_card(card)}
    done = subprocess.run([*command, "--out", str(out)], timeout=HARNESS_S, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"the harness ended with status {done.returncode}")


def begun(elite: ConfirmedElite) -> Row:
    """Return the row of an elite before it is compared."""
    return {
        "operator": elite.operator.name,
        "cell": elite.cell,
        "candidate": elite.candidate,
        "then": elite.then.model_dump() if elite.then else None,
        "same_bundle": None,
        "ours": None,
        "independent": None,
        "difference_percent": None,
        "sample_percent": None,
        "shapes": {},
    }


def compared(traced: TracedElite, answer: Answer, outside: Mapping[str, Any] | None) -> Row:
    """Return the row of an elite that was confirmed again."""
    row = begun(traced.elite)
    if not isinstance(answer, Report) or answer.outcome is not Outcome.CORRECT or answer.over_pacer is None:
        return row | {"failed": _said(answer)}
    again = traced.bundle.model_copy(update={"operator": traced.elite.operator.digest}).identity
    row |= {"ours": answer.over_pacer.model_dump(), "same_bundle": again == traced.elite.bundle_digest}
    if outside is None or not outside.get("independent"):
        return row | {"failed": "the harness: " + str((outside or {}).get("error", "no row"))[:200]}
    weights = {shape.key: shape.weight for shape in traced.elite.shapes}
    for result in answer.shapes:
        if (timed := outside["shapes"].get(result.shape)) and result.samples:
            row["shapes"][result.shape] = {
                "weight": weights[result.shape],
                "calls": result.samples.calls,
                "elite_us": median(result.samples.candidate_us),
                "seed_us": median(result.samples.other_us),
                "harness": timed,
            }
    low, mid, high = (overall(row, lambda timed, end=end: timed[end]) for end in ("low", "ratio", "high"))
    row["independent"] = {"low": low, "mid": mid, "high": high}
    row["difference_percent"] = _apart(mid, answer.over_pacer.mid)
    if all(_sampled(each, OUR_FORM) for each in row["shapes"].values()):
        row["sample_percent"] = _apart(
            overall(row, lambda timed: timed["samples"][OUR_FORM]["ratio"]), answer.over_pacer.mid
        )
    return row | {"explained": explanation(row)}


def _sampled(each: Mapping[str, Any], form: str) -> bool:
    """Return True if the harness has samples of as many calls as ours, in a form."""
    sample = each["harness"].get("samples", {}).get(form)
    return sample is not None and sample["calls"] == each["calls"]


def _apart(its: float, ours: float) -> float:
    return 100 * (its / ours - 1)


def overall(row: Mapping[str, Any], ratio: Callable[[Mapping[str, Any]], float]) -> float:
    """Return the weighted geometric mean of a ratio of the harness over a row's shapes."""
    weight = sum(each["weight"] for each in row["shapes"].values())
    logs = sum(each["weight"] * math.log(ratio(each["harness"])) for each in row["shapes"].values())
    return math.exp(logs / weight)


def explanation(row: Mapping[str, Any]) -> str:
    """Return what a row's difference rests on."""
    ours, its = row["ours"], row["independent"]
    if abs(row["difference_percent"]) <= CLOSE_PERCENT:
        return "within"
    if its["low"] <= ours["high"] and ours["low"] <= its["high"]:
        return "interval"
    sampled = row["sample_percent"]
    return "sample" if sampled is not None and abs(sampled) <= CLOSE_PERCENT else "open"


def forms(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return how far samples of the harness are from its long graphs, by the share that a flush writes."""
    apart: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        shapes = row["shapes"].values()
        for form in set.intersection(*(set(each["harness"].get("samples", {})) for each in shapes)) if shapes else ():
            its = overall(row, lambda timed, form=form: timed["samples"][form]["ratio"])
            apart[form].append(_apart(its, row["independent"]["mid"]))
    return {
        form: {
            "median_percent": median(map(abs, each)),
            "largest_percent": max(each, key=abs),
            "within": sum(abs(one) <= CLOSE_PERCENT for one in each),
        }
        for form, each in sorted(apart.items(), key=lambda item: median(map(abs, item[1])))
    }


def seed_spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the range of the seed's time in long graphs, in per cent by operator and shape."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for shape, each in row["shapes"].items():
            found[f"{row['operator']} {shape}"].append(each["harness"]["seed_us"])
    return {key: _apart(max(times), min(times)) for key, times in found.items()}


def tally_rows(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Count the rows by explanation."""
    apart = [row["difference_percent"] for row in rows if row["difference_percent"] is not None]
    again = [_apart(row["ours"]["mid"], row["then"]["mid"]) for row in rows if row["ours"] and row["then"]]
    kinds = ("within", "interval", "sample", "open")
    return {
        "elites": len(rows),
        "compared": len(apart),
        **{why: sum(row.get("explained") == why for row in rows) for why in kinds},
        "median_percent": median(apart) if apart else None,
        "largest_percent": max(apart, key=abs, default=None),
        "median_change_percent": median(map(abs, again)) if again else None,
    }


def main() -> None:
    """Make `independent.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archives", nargs="+", type=Path, help="zip files that `reef export` or `--slim` wrote")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options.add_argument("--slim", type=Path, help="only write what is needed of the zip files, into this folder")
    options.add_argument("--seconds", type=float, default=0.5, help="of the harness's pairs, per elite and shape")
    options.add_argument("--most", type=int, help="elites per archive, the best first; all if not given")
    options.add_argument("--harness", type=Path, help="figures of the harness from an earlier run, `harness.json`")
    options.add_argument("--executors", type=int, default=3, help="that share the card while elites are confirmed")
    options.add_argument("--data", type=Path, default=cache_home(), help="where baselines are kept")
    options.add_argument("--card", type=int, default=0)
    chosen = options.parse_args()
    if chosen.slim:
        for archive in chosen.archives:
            print(write_slim(archive, chosen.slim, chosen.most))
        return
    device, figures = device_of(chosen.card), FigureRows(chosen.out, "independent", chosen.card)
    elites = [each for archive in chosen.archives for each in confirmed(archive, chosen.most)]
    found = list(traced(elites, device.target))
    timed = chosen.harness or chosen.out / "harness.json"
    if not chosen.harness:
        timed_outside(chosen.archives, chosen.seconds, chosen.most or len(elites), chosen.card, timed)
    outside = {row["candidate"]: row for row in json.loads(timed.read_text())["rows"]}
    ready = [each for each in found if isinstance(each, TracedElite)]
    rows = [begun(each[0]) | {"failed": each[1]} for each in found if not isinstance(each, TracedElite)]
    for row in rows:
        figures.add(row, f"{row['candidate']}: {row['failed']}")
    for each, answer in confirm_again(ready, device, chosen.card, chosen.executors, chosen.data):
        row = compared(each, answer, outside.get(each.elite.candidate))
        said = {name: row.get(name) for name in ("operator", "cell", "difference_percent", "explained", "failed")}
        figures.add(row, json.dumps(said))
        rows.append(row)
    figures.conclude(agreement=tally_rows(rows), forms=forms(rows), seed_spread_percent=seed_spread(rows))
    print(json.dumps(tally_rows(rows) | forms(rows)))


if __name__ == "__main__":
    main()
