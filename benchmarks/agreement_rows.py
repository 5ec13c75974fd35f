"""Rows, sums and tables of `benchmarks.agreement`, from what a run on a card recorded.

A run leaves `confirms.jsonl`, a line per confirm and condition; `harness.json`, of the independent harness; and
`rounds.jsonl`, the timed rounds of all executors (`benchmarks.observed_executor`).

`difference_percent` is the harness's speedup in long graphs over ours of condition `usual`, less 1. `forms_percent` is
the same of the harness's samples of as many calls as ours, by form. `explained` says what a difference rests on:

- `within`: it is at most 0.5 %.
- `interval`: the 95 % intervals of both overlap.
- `sample`: a form of samples that begins as ours do (`OUR_FORMS`) differs from ours by at most 0.5 %. So both harnesses
  say the same of one sample, and a long run differs from it. `form` names it.
- `places`: the harness agrees with us if its inputs and results lie at random distances, as ours do, and not if they
  lie where torch puts them: they differ by at most 0.5 %, or the intervals overlap. `form` is `shifted`, its long
  graphs; or `shifted judge`, `shifted all` or `shifted plain`, its samples. `places_percent` is the rest of the
  difference.
- `state`: the same as `sample`, of those rounds alone that have the card's faster state, or of the confirm by one
  executor alone. `by` says which.
- `open`: none of these.

Rows that a run did not reach are those of the file before it. Their `session` says when and how they were made, and
sums leave them out.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.figures import Row, read_lines

CLOSE_PERCENT = 0.5
"""Difference that needs no explanation: the practical margin."""
OUR_FORMS = ("judge", "all", "plain")
"""Forms of the harness's samples that begin as ours do, after a flush that writes all, the closest to ours first. Few
elites have `plain`."""
USUAL, ALONE = "usual", "alone"
"""Conditions of confirms: as in a search, and by one executor alone."""
SHIFTED = "shifted"
"""Long graphs of the harness at the judge's places, and the first word of its samples there."""
KINDS = ("within", "interval", "sample", "places", "state", "open")
SLOW = 1.015
"""Time of a seed's round over the shape's fastest tenth beyond which the round is slow: states are 3 % apart."""
CARD = ("sm_mhz", "memory_mhz", "gpu_c", "memory_c", "power_mw", "power_now_mw", "throttled_by")
"""Readings beside rounds."""
Pick = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class Records:
    """Records of a run.

    Attributes:
        confirms: Confirms by condition and candidate.
        harness: Rows of the harness by candidate.
        rounds: Timed rounds, the controls left out.
    """

    confirms: Mapping[tuple[str, str], Row]
    harness: Mapping[str, Row]
    rounds: Sequence[Row]

    @cached_property
    def fast(self) -> list[Row]:
        """The rounds that are not slow."""
        found = ((lines, _fastest(lines)) for lines in _conditions(self.rounds).values())
        return [line for lines, least in found for line in lines if side_us(line, "p") <= SLOW * least]


def read_records(folders: Sequence[Path]) -> Records:
    """Read what runs left in folders. What they did not reach is not there.

    An elite's confirm and its row of the harness are the last ones that succeeded.
    """
    confirms, outside, rounds = dict[tuple[str, str], Row](), dict[str, Row](), list[Row]()
    for folder in folders:
        lines, timed = (_lines(folder / f"{name}.jsonl") for name in ("confirms", "rounds"))
        found = {(line["condition"], line["candidate"]): line for line in lines}
        again = {key for key, line in found.items() if line["over_pacer"] or key not in confirms}
        confirms |= {key: found[key] for key in again}
        rounds = [line for line in rounds if (line["condition"], line["job"]) not in again]
        rounds += [line for line in timed if not line["control"] and (line["condition"], line["job"]) in again]
        harness = folder / "harness.json"
        rows = json.loads(harness.read_text())["rows"] if harness.exists() else []
        outside |= {row["candidate"]: row for row in rows if "error" not in row or row["candidate"] not in outside}
    return Records(confirms, outside, rounds)


def _lines(path: Path) -> list[Row]:
    return read_lines(path) if path.exists() else []


def earlier_rows(path: Path) -> dict[str, Row]:
    """Return the rows of a finished file that were compared, by candidate, each with the session that made it."""
    document: Row = json.loads(path.read_text()) if path.exists() else {"rows": ()}
    session = {name: document.get(name) for name in ("date", "command")}
    return {row["candidate"]: {"session": session} | row for row in document["rows"] if "failed" not in row}


def row_of(row: Row, weights: Mapping[str, float], records: Records) -> Row:
    """Complete the row of an elite.

    Args:
        row: Its name, and `then`, its speedup in the search.
        weights: Weights of its benchmark shapes.
        records: Records of a run.
    """
    candidate = row["candidate"]
    again = {name: line for (name, each), line in records.confirms.items() if each == candidate}
    usual, outside = again.get(USUAL), records.harness.get(candidate)
    row |= {name: None for name in ("same_bundle", "ours", "independent", "difference_percent")}
    row |= {"forms_percent": {}, "confirms": _others(again), "fast": None, "shapes": {}}
    if usual is None or usual["over_pacer"] is None:
        return row | {"failed": "not confirmed" if usual is None else usual["failed"]}
    row |= {"ours": usual["over_pacer"], "same_bundle": usual["same_bundle"]}
    if outside is None or not outside.get("independent"):
        return row | {"failed": "the harness: " + str((outside or {}).get("error", "no row"))[:200]}
    row["shapes"] = {
        key: {"weight": weights[key], **each, "harness": _slim(outside["shapes"][key])}
        for key, each in usual["shapes"].items()
        if key in outside["shapes"]
    }
    if not row["shapes"]:
        return row | {"failed": "no shape was timed by both"}
    low, mid, high = (overall(row, lambda timed, end=end: timed[end]) for end in ("low", "ratio", "high"))
    row["independent"] = {"low": low, "mid": mid, "high": high}
    row["difference_percent"] = apart(mid, row["ours"]["mid"])
    row["forms_percent"] = {form: apart(_of_form(row, form), row["ours"]["mid"]) for form in _all_forms(row)}
    row["fast"] = fast_speedup(row, [line for line in records.fast if line["condition"] == USUAL])
    return row | explanation(row)


def _slim(timed: Mapping[str, Any]) -> Row:
    """Return times of the harness with fewer digits, and of deciles the first and the last."""
    found: Row = {}
    for name, value in timed.items():
        if name == "samples":
            found[name] = {form: _slim(each) for form, each in value.items()}
        elif name == SHIFTED:
            found[name] = _slim(value)
        elif name.endswith("_deciles_us"):
            found[name.replace("deciles", "range")] = [round(value[0], 3), round(value[-1], 3)]
        else:
            found[name] = round(value, 6)
    return found


def _others(again: Mapping[str, Row]) -> Row:
    """Return the speedups of the other conditions, with the times by shape."""
    return {
        name: {**line["over_pacer"], "shapes": line["shapes"]}
        for name, line in again.items()
        if name != USUAL and line["over_pacer"] is not None
    }


def apart(its: float, ours: float) -> float:
    """Return the difference of two speedups in per cent."""
    return 100 * (its / ours - 1)


def overall(row: Mapping[str, Any], ratio: Pick) -> float:
    """Return the weighted geometric mean of a ratio of the harness over a row's shapes."""
    weight = sum(each["weight"] for each in row["shapes"].values())
    logs = sum(each["weight"] * math.log(ratio(each["harness"])) for each in row["shapes"].values())
    return math.exp(logs / weight)


def forms_of(row: Mapping[str, Any]) -> list[str]:
    """Return the forms in which the harness has samples of as many calls as ours at all shapes."""
    found = [_timed_samples(each["harness"]) for each in row["shapes"].values()]
    return [
        form
        for form in (found[0] if found else ())
        if all(
            one.get(form, {}).get("calls") == each["calls"]
            for one, each in zip(found, row["shapes"].values(), strict=True)
        )
    ]


def _timed_samples(timed: Mapping[str, Any]) -> dict[str, Row]:
    """Return the harness's samples at a shape by form, those at the judge's places too."""
    shifted = timed.get(SHIFTED, {}).get("samples", {})
    return {**timed.get("samples", {}), **{f"{SHIFTED} {form}": each for form, each in shifted.items()}}


def _all_forms(row: Mapping[str, Any]) -> list[str]:
    """Return the forms of samples, and long graphs at the judge's places if there are any."""
    moved = all(SHIFTED in each["harness"] for each in row["shapes"].values())
    return [*forms_of(row), *((SHIFTED,) if moved and row["shapes"] else ())]


def _of_form(row: Mapping[str, Any], form: str, end: str = "ratio") -> float:
    def ratio(timed: Mapping[str, Any]) -> float:
        return float((timed[SHIFTED] if form == SHIFTED else _timed_samples(timed)[form])[end])

    return overall(row, ratio)


def explanation(row: Mapping[str, Any]) -> Row:
    """Return what a row's difference rests on."""
    ours, its, forms = row["ours"], row["independent"], row["forms_percent"]
    if abs(row["difference_percent"]) <= CLOSE_PERCENT:
        return {"explained": "within"}
    if its["low"] <= ours["high"] and ours["low"] <= its["high"]:
        return {"explained": "interval"}
    for form in (form for form in OUR_FORMS if form in forms):
        if abs(forms[form]) <= CLOSE_PERCENT:
            return {"explained": "sample", "form": form}
    if places := _places(row):
        return places
    for by, mid in (("fast rounds", row["fast"]), ("alone", row["confirms"].get(ALONE, {}).get("mid"))):
        found = {form: apart(_of_form(row, form), mid) for form in OUR_FORMS if form in forms} if mid else {}
        for form, percent in found.items():
            if abs(percent) <= CLOSE_PERCENT:
                return {"explained": "state", "form": form, "by": by, "state_percent": percent}
    return {"explained": "open"}


def _places(row: Mapping[str, Any]) -> Row:
    """Return an explanation by the harness at the judge's places; empty if there is none."""
    ours, forms = row["ours"], row["forms_percent"]
    for form in (SHIFTED, *(f"{SHIFTED} {form}" for form in OUR_FORMS)):
        if form in forms:
            overlaps = _of_form(row, form, "low") <= ours["high"] and ours["low"] <= _of_form(row, form, "high")
            if overlaps or abs(forms[form]) <= CLOSE_PERCENT:
                return {"explained": "places", "form": form, "places_percent": forms[form]}
    return {}


def fast_speedup(row: Mapping[str, Any], rounds: Sequence[Row]) -> float | None:
    """Return an elite's speedup over the seed in fast rounds of its usual confirm; None if a shape has none."""
    logs, weight = 0.0, sum(each["weight"] for each in row["shapes"].values())
    for shape, each in row["shapes"].items():
        mine = [line for line in rounds if line["shape"] == shape and line["job"] == row["candidate"]]
        if not mine:
            return None
        logs += each["weight"] * math.log(median(side_us(line, "p") / side_us(line, "c") for line in mine))
    return math.exp(logs / weight)


def summary(rows: Sequence[Row], records: Records) -> Row:
    """Return what follows from the rows."""
    return {
        "agreement": tally_rows(rows),
        "operators": {name: tally_rows(each) for name, each in _by_operator(rows).items()},
        "forms": forms(rows),
        "extra_us": extras(rows),
        "states": states(records.rounds),
        "seed_spread_percent": seed_spread(rows),
        "rounds": slow_rounds(records.rounds),
    }


def _by_operator(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["operator"]].append(row)
    return found


def tally_rows(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Count the rows by explanation, with their differences."""
    found = [row["difference_percent"] for row in rows if row["difference_percent"] is not None]
    again = [apart(row["ours"]["mid"], row["then"]["mid"]) for row in rows if row["ours"] and row["then"]]
    return {
        "elites": len(rows),
        "compared": len(found),
        **{why: sum(row.get("explained") == why for row in rows) for why in KINDS},
        **_spread(found),
        "median_change_percent": median(map(abs, again)) if again else None,
    }


def _spread(found: Sequence[float]) -> Row:
    return {
        "close": sum(abs(each) <= CLOSE_PERCENT for each in found),
        "median_percent": median(found) if found else None,
        "median_size_percent": median(map(abs, found)) if found else None,
        "largest_percent": max(found, key=abs, default=None),
    }


def forms(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return how far the harness's samples are from its long graphs and from ours, by form."""
    long, ours = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for row in rows:
        for form in _all_forms(row):
            long[form].append(apart(_of_form(row, form), row["independent"]["mid"]))
            ours[form].append(row["forms_percent"][form])
    return {form: {"from_long": _spread(long[form]), "from_ours": _spread(ours[form])} for form in long}


def seed_spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the range of the seed's time in long graphs, in per cent by operator and shape."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for shape, each in row["shapes"].items():
            found[f"{row['operator']} {shape}"].append(each["harness"]["seed_us"])
    return {key: apart(max(times), min(times)) for key, times in found.items()}


def extras(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return what a sample takes longer than as many calls in long graphs, us: medians by shape, side and sample."""
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: {"seed": {}, "elite": {}})
    for row in rows:
        for shape, each in row["shapes"].items():
            timed = {USUAL: each}
            timed |= {name: one["shapes"][shape] for name, one in row["confirms"].items() if shape in one["shapes"]}
            timed |= {f"harness {form}": _timed_samples(each["harness"])[form] for form in forms_of(row)}
            for side, kinds in found[f"{row['operator']} {shape}"].items():
                for name, one in timed.items():
                    extra = one[f"{side}_us"] - each["harness"][f"{side}_us"]
                    kinds.setdefault(name, []).append(extra * one["calls"])
    return {
        shape: {side: {name: round(median(each), 2) for name, each in kinds.items()} for side, kinds in sides.items()}
        for shape, sides in found.items()
    }


def side_us(line: Mapping[str, Any], side: str) -> float:
    """Return a side's median in a round, microseconds per call: `p` is the seed, `c` the elite."""
    calls = max(line["calls"])  # Truncated samples have fewer.
    samples = zip(line["sides"], line["calls"], line["us"], strict=True)
    return median(us for each, count, us in samples if each == side and count == calls)


def _conditions(rounds: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return whole rounds by condition and shape; a first round of lone calls, which only counts them, is left out."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for line in rounds:
        if len(line["us"]) > 4:
            found[line["condition"], f"{line['operator']} {line['shape']}"].append(line)
    return found


def _fastest(lines: Sequence[Row]) -> float:
    times = [side_us(line, "p") for line in lines]
    return quantiles(times, n=10, method="inclusive")[0] if len(times) > 1 else times[0]


def states(rounds: Sequence[Row]) -> Row:
    """Return how many rounds are slow, by condition and shape, with the card's medians in either state."""
    found: Row = {}
    for (condition, shape), lines in _conditions(rounds).items():
        least = _fastest(lines)
        sides: dict[str, list[Row]] = {"fast": [], "slow": []}
        for line in lines:
            sides["slow" if side_us(line, "p") > SLOW * least else "fast"].append(line)
        found[f"{condition} {shape}"] = {
            "rounds": len(lines),
            "slow_rounds": len(sides["slow"]),
            **{name: _readings(each) for name, each in sides.items() if each},
        }
    return found


def _readings(lines: Sequence[Row]) -> Row:
    found = {
        "seed_us": median(side_us(line, "p") for line in lines),
        "mhz": median(median(line["mhz"]) for line in lines),
    }
    for name in CARD:
        if known := [line["card"][name] for line in lines if name in line["card"]]:
            found[name] = median(known)
    return found


def slow_rounds(rounds: Sequence[Row]) -> list[Row]:
    """Return the rounds at shapes with more than one state, in the order of their times, seconds after the first."""
    kept = []
    for (condition, shape), lines in _conditions(rounds).items():
        least = _fastest(lines)
        if any(side_us(line, "p") > SLOW * least for line in lines):
            kept += [(condition, shape, line) for line in lines]
    first = min((line["at_s"] for _, _, line in kept), default=0.0)
    return [
        {
            "at_s": round(line["at_s"] - first, 2),
            "condition": condition,
            "at": shape,
            "executor": line["executor"],
            "candidate": line["job"],
            "pairs": line["sides"].count("p"),
            "seed_us": round(side_us(line, "p"), 2),
            "elite_us": round(side_us(line, "c"), 2),
            "mhz": round(median(line["mhz"]), 1),
            **{name: line["card"][name] for name in CARD if name in line["card"]},
        }
        for condition, shape, line in sorted(kept, key=lambda each: each[2]["at_s"])
    ]


def tables(rows: Sequence[Row], found: Row) -> str:
    """Return the tables for the documentation."""
    return "\n\n".join((_operators(found), _forms(found), _extras(found), _states(found), _elites(rows)))


def _operators(found: Row) -> str:
    lines = [
        (
            name,
            each["compared"],
            each["close"],
            each["interval"],
            each["sample"],
            each["places"],
            each["state"],
            each["open"],
            _signed(each["largest_percent"]),
        )
        for name, each in (*found["operators"].items(), ("all", found["agreement"]))
    ]
    heads = ("operator", "elites", "within 0.5 %", "interval", "sample", "places", "state", "open", "largest, %")
    return table(heads, lines)


def _forms(found: Row) -> str:
    lines = [
        (form, *(show for end in ("from_ours", "from_long") for show in _shown(each[end])))
        for form, each in found["forms"].items()
    ]
    heads = ("form", "within 0.5 % of ours", "median", "largest", "within 0.5 % of long graphs", "median", "largest")
    return table(heads, lines)


def _shown(each: Row) -> tuple[str, str, str]:
    return str(each["close"]), f"{each['median_size_percent']:.2f} %", _signed(each["largest_percent"]) + " %"


def _extras(found: Row) -> str:
    names = list(dict.fromkeys(name for sides in found["extra_us"].values() for name in sides["seed"]))
    lines = [
        (shape, side, *(f"{kinds[name]:.1f}" if name in kinds else "" for name in names))
        for shape, sides in found["extra_us"].items()
        for side, kinds in sides.items()
    ]
    return table(("at, extra us of a sample", "side", *names), lines)


def _states(found: Row) -> str:
    lines = []
    for name, each in found["states"].items():
        counts = {"fast": each["rounds"] - each["slow_rounds"], "slow": each["slow_rounds"]}
        for state in counts if each["slow_rounds"] else ():
            shown = each[state]
            readings = (f"{shown[one]:g}" if one in shown else "" for one in ("mhz", *CARD))
            lines.append((name, state, counts[state], f"{shown['seed_us']:.1f}", *readings))
    return table(("rounds of", "state", "number", "seed, us", "mhz", *CARD), lines)


def _elites(rows: Sequence[Row]) -> str:
    lines = []
    for row in sorted(rows, key=lambda row: (row["operator"], row["cell"] or 0)):
        form = row.get("form") or next((form for form in OUR_FORMS if form in row["forms_percent"]), None)
        lines.append(
            (
                f"{row['operator']} {row['cell']}",
                _ratio(row["ours"]),
                _ratio(row["independent"]),
                _signed(row["difference_percent"]),
                "" if form is None else f"{_signed(row['forms_percent'][form])} ({form})",
                row.get("explained", row.get("failed", "")),
            )
        )
    heads = ("elite", "ours", "harness", "difference, %", "in our form, %", "explained by")
    return table(heads, lines)


def _ratio(ratio: Row | None) -> str:
    return "" if ratio is None else f"{ratio['mid']:.4f}"


def _signed(percent: float | None) -> str:
    return "" if percent is None else f"{percent:+.2f}"


def table(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    shown = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in shown)
