"""Confirmed elites judged twice in one session: confirmed again by executors, and timed by the independent harness.

    python -m benchmarks.as_run softmax rmsnorm cross_entropy --seconds 60 --keep kept    # or `reef export` of searches
    python -m benchmarks.agreement kept/*.zip --most 20 --slim benchmarks/results/elites  # what this needs of them
    python -m benchmarks.agreement benchmarks/results/elites/*.zip --confirms usual alone --out OUT     # on a card
    python -m benchmarks.agreement benchmarks/results/elites/*.zip --recorded OUT         # rows and tables, anywhere

It makes `independent.json` (`benchmarks.agreement_rows` says what its rows hold). Elites and seeds are traced again,
then confirmed as in a search: from scratch, on content that is used once, beside the seed. The harness is
`benchmarks/independent_harness.py`, in a process of its own that imports nothing of Kernelreef: it compiles the
exported source itself and times it in CUDA graphs with cold inputs, at torch's places and at places like ours. Both see
the same card within minutes, and nothing else runs then. What is compared is the speedup over the seed.

Elites can be confirmed in two conditions, by three executors or one. Confirms, rounds of executors and rows of the
harness are written when they are known, into `--out`, so an end at any time loses nothing. `--recorded` keeps the rows
of the file before for elites that a run did not reach.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.agreement_rows import USUAL, earlier_rows, read_records, row_of, summary, tables
from benchmarks.figures import FigureRows, LineLog, Row, TimeAllowance, device_of, visible_card
from benchmarks.record import RESULTS
from tests.gpu.benches import BENCH, Team, answers, cores, measuring
from workers.options import cache_home
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    Bundle,
    CardShare,
    ConfirmJob,
    Device,
    ExecutorFailure,
    Graph,
    Operator,
    Outcome,
    Ratio,
    Report,
    Shape,
    TraceJob,
    TraceReport,
)
from workers.safe_python import PYTHON

HARNESS = "benchmarks.independent_harness"
CONFIRMS_SHARE = 0.65
"""Share of the time after which no other of the first confirms is begun: the harness has the rest."""
HARNESS_SHARE = 0.55
"""Share of the time that is left after the first confirms that the harness may take, if other confirms follow."""
BROKEN = 75
"""The harness's exit status after an error of the card, which ends its use in that process."""
LAST_S = 30.0
"""Seconds for the harness's last elite."""
ROOT = Path(__file__).parents[1]
OBSERVED = (*PYTHON, "-m", "benchmarks.observed_executor")
PATHS = ("--out", "--recorded", "--data")
"""Options that name places of one machine."""
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


CONDITIONS = {"usual": 3, "alone": 1}
"""Ways to confirm, by name, with the number of executors that share the card. `usual` is that of a search."""


@dataclass(frozen=True)
class ChosenConfirms:
    """Confirms of some elites in a condition.

    Attributes:
        condition: Name of the condition.
        operator: The operator whose elites are confirmed; None for all.
        step: Every so many of each operator's elites are confirmed, from the best on.
    """

    condition: str
    operator: str | None = None
    step: int = 1

    @classmethod
    def parse(cls, text: str) -> "ChosenConfirms":
        """Parse `usual`, `alone:cross_entropy`, or `alone:cross_entropy/2` for every second elite.

        Raises:
            ArgumentTypeError: If there is no such condition.
        """
        name, _, some = text.partition(":")
        operator, _, step = some.partition("/")
        if name not in CONDITIONS or (step and not (step.isdecimal() and int(step))):
            raise argparse.ArgumentTypeError(f"'{text}' is not {', '.join(CONDITIONS)}, as in alone:cross_entropy/2")
        return cls(name, operator or None, int(step or 1))

    def of(self, elites: Sequence[TracedElite]) -> list[TracedElite]:
        """Return those that are confirmed, operators in turn: an early end leaves the best of each."""
        by_operator: dict[str, list[TracedElite]] = {}
        for each in elites:
            by_operator.setdefault(each.elite.operator.name, []).append(each)
        kept = [each[:: self.step] for name, each in by_operator.items() if self.operator in (None, name)]
        return [each for some in zip_longest(*kept) for each in some if each is not None]


def observed(name: str, device: Device, card: int, data: Path, rounds: Path) -> tuple[str, ...]:
    """Return the command of an executor in a condition, whose rounds are recorded."""
    options = measuring(device, CardShare(card, CONDITIONS[name]), data)[len(BENCH) + 1 :]
    return (*OBSERVED, "--rounds", str(rounds.resolve()), "--condition", name, *options)


def confirm_again(
    elites: Sequence[TracedElite], device: Device, executors: int, command: Sequence[str], limit: TimeAllowance
) -> Iterator[tuple[TracedElite, Answer]]:
    """Confirm elites, several beside each other as in a search. None is begun when the time is up."""

    def ask(job: ConfirmJob) -> Answer:
        return ExecutorFailure(error="no time was left", transient=True) if limit.spent else team.ask(job)

    with closing(Team(command, MEASURED_DEADLINE_S)) as team, ThreadPoolExecutor(executors) as pool:
        asked = {pool.submit(ask, confirm_job(each, device)): each for each in elites}
        for future in as_completed(asked):
            yield asked[future], future.result()


def confirm_line(name: str, traced: TracedElite, answer: Answer) -> Row:
    """Return what is recorded of a confirm."""
    line: Row = {"condition": name, "candidate": traced.elite.candidate, "over_pacer": None, "shapes": {}}
    if not isinstance(answer, Report) or answer.outcome is not Outcome.CORRECT or answer.over_pacer is None:
        return line | {"failed": _said(answer)}
    again = traced.bundle.model_copy(update={"operator": traced.elite.operator.digest}).identity
    return line | {
        "over_pacer": answer.over_pacer.model_dump(),
        "same_bundle": again == traced.elite.bundle_digest,
        "shapes": {
            result.shape: {
                "calls": result.samples.calls,
                "elite_us": median(result.samples.candidate_us),
                "seed_us": median(result.samples.other_us),
            }
            for result in answer.shapes
            if result.samples
        },
        "stages_s": {stage: round(seconds, 2) for stage, seconds in answer.stages_s.items()},
    }


def timed_outside(chosen: argparse.Namespace, most: int, out: Path, limit_s: float) -> None:
    """Run the harness on a card; it begins no elite after a limit.

    After an error of the card it goes on in a new process, without the elite that made it.

    Raises:
        SystemExit: If it fails.
    """
    command = [sys.executable, "-m", HARNESS, *(str(each.resolve()) for each in chosen.archives)]
    command += ["--seconds", str(chosen.seconds), "--most", str(most), "--out", str(out.resolve())]
    command += ["--first", *chosen.first, *(("--draws", str(chosen.draws)) if chosen.draws else ())]
    environment, limit = os.environ | {"CUDA_VISIBLE_DEVICES": visible_card(chosen.card)}, TimeAllowance(limit_s)
    more, status = ["--processes", str(cores())], BROKEN
    while status == BROKEN and not limit.spent:
        left_s = limit.left_s
        whole = [*command, *more, "--limit", str(left_s)]
        status = subprocess.run(whole, timeout=left_s + LAST_S, check=False, env=environment, cwd=ROOT).returncode
        more = ["--resume"]
    if status:
        raise SystemExit(f"the harness ended with status {status}")


def record(elites: Sequence[ConfirmedElite], chosen: argparse.Namespace, device: Device, limit: TimeAllowance) -> None:
    """Trace all elites, confirm them in each condition, and time them by the harness; lines are written at once."""
    written, rounds, harness = (chosen.out / name for name in ("confirms.jsonl", "rounds.jsonl", "harness.json"))
    for path in (written, rounds, harness):
        path.unlink(missing_ok=True)
    lines, said = LineLog(written), partial(_progress, time.monotonic())
    found = list(traced(elites, device.target))
    ready = [each for each in found if isinstance(each, TracedElite)]
    for elite, why in (each for each in found if not isinstance(each, TracedElite)):
        lines.add({"condition": USUAL, "candidate": elite.candidate, "over_pacer": None, "shapes": {}, "failed": why})
    said(f"traced {len(ready)} of {len(found)}")
    for number, confirms in enumerate(chosen.confirms):
        name = confirms.condition
        command = observed(name, device, chosen.card, chosen.data, rounds)
        ordered = put_first(confirms.of(ready), chosen.first)
        until = limit if number or chosen.without_harness else TimeAllowance(limit.left_s * CONFIRMS_SHARE)
        for each, answer in confirm_again(ordered, device, CONDITIONS[name], command, until):
            line = confirm_line(name, each, answer)
            lines.add(line)
            ratio = line["over_pacer"]
            said(f"{name}: {each.elite.operator.name} {ratio['mid'] if ratio else line['failed']}")
        if number == 0 and not chosen.without_harness:
            share = HARNESS_SHARE if chosen.confirms[1:] else 1.0
            try:
                timed_outside(chosen, chosen.most or len(elites), harness, limit.left_s * share)
            except (SystemExit, subprocess.TimeoutExpired) as error:  # The other conditions say something without it.
                said(f"the harness failed: {error}")
            said("timed by the harness")


def put_first(elites: Sequence[TracedElite], first: Sequence[str]) -> list[TracedElite]:
    """Return elites in another order: those of some names come first, as `softmax/135`, or `softmax` for all others."""
    rank = {name: number for number, name in enumerate(first)}

    def place(each: TracedElite) -> int:
        name = each.elite.operator.name
        return rank.get(f"{name}/{each.elite.cell}", rank.get(name, len(rank)))

    return sorted(elites, key=place)


def _progress(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:6.1f} s: {text}", flush=True)


def portable(command: str) -> str:
    """Return a command without the options that name places of one machine."""
    words, kept = iter(command.split()), []
    for word in words:
        if word in PATHS:
            next(words, None)
        else:
            kept.append(word)
    return " ".join(kept)


def begun(elite: ConfirmedElite) -> Row:
    """Return the row of an elite before it is compared."""
    return {
        "operator": elite.operator.name,
        "cell": elite.cell,
        "candidate": elite.candidate,
        "then": elite.then.model_dump() if elite.then else None,
    }


def main() -> None:
    """Make `independent.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archives", nargs="+", type=Path, help="zip files that `reef export` or `--slim` wrote")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options.add_argument("--slim", type=Path, help="only write what is needed of the zip files, into this folder")
    options.add_argument(
        "--recorded", type=Path, nargs="+", help="only make the rows anew from what runs left, by folder"
    )
    options.add_argument("--seconds", type=float, default=0.5, help="of the harness's pairs, per elite and shape")
    options.add_argument("--most", type=int, help="elites per archive, the best first; all if not given")
    options.add_argument(
        "--confirms",
        nargs="+",
        type=ChosenConfirms.parse,
        default=[ChosenConfirms(USUAL)],
        metavar="CONDITION[:OPERATOR[/STEP]]",
        help=f"of {', '.join(CONDITIONS)}; the harness follows the first",
    )
    options.add_argument("--first", nargs="+", default=(), metavar="OPERATOR[/CELL]", help="elites that come first")
    options.add_argument("--draws", type=int, help="of shifted places in the harness, for elites that come first")
    options.add_argument("--without-harness", action="store_true", help="only confirm")
    options.add_argument("--limit", type=float, default=3600, help="seconds after which nothing else is begun")
    options.add_argument("--data", type=Path, default=cache_home(), help="where baselines are kept")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--device", type=Device.parse, help="the card's class if not given")
    chosen = options.parse_args()
    if chosen.slim:
        for archive in chosen.archives:
            print(write_slim(archive, chosen.slim, chosen.most))
        return
    elites = [each for archive in chosen.archives for each in confirmed(archive, chosen.most)]
    earlier = earlier_rows(chosen.out / "independent.json")
    figures, folders = FigureRows(chosen.out, "independent", chosen.card), chosen.recorded or [chosen.out]
    if chosen.recorded is None:
        figures.conclude()
        record(elites, chosen, chosen.device or device_of(chosen.card), TimeAllowance(chosen.limit))
    commands = [portable(figures.adopt(folder / "independent.json")["command"]) for folder in folders]
    figures.conclude(command="; ".join(commands))
    records = read_records(folders)
    weights = {each.candidate: {shape.key: shape.weight for shape in each.shapes} for each in elites}
    rows = [row_of(begun(each), weights[each.candidate], records) for each in elites]
    found = summary(rows, records)
    figures.rows.extend(earlier.get(row["candidate"], row) if "failed" in row else row for row in rows)
    figures.conclude(**found)
    print(tables(rows, found))


if __name__ == "__main__":
    main()
