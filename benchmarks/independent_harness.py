"""Confirmed elites in another harness: what a search says of each beside what CUDA graphs with cold inputs say.

    reef export SEARCH --out one.zip                                            # for each search
    python -m benchmarks.independent_harness one.zip two.zip --seconds 1 --processes 16 --out harness.json

It needs torch and triton and the zip files, and imports nothing of Kernelreef but `benchmarks/cold_graphs.py` and
`benchmarks/shifted_places.py`, which import nothing of it. Elite and seed are timed in turn, in changing order, in two
forms. The card is held while the host queues. The ratio is the median over the pairs, by shape, with the 95 % interval
of a median, and over the shapes their weighted geometric mean. Of a kernel with several configurations the elite's is
taken. `--processes` compile all kernels first, beside each other, into Triton's cache.

**Long.** A graph has as many calls as take a millisecond, each on inputs and results of its own. Before it, untimed
calls on further inputs move twice the L2 cache, so the timed ones begin as they would in a longer run. `ours` is the
speedup over the same seed that the elite's report has; `difference_percent` is `independent` over `ours`, less 1.

**Samples.** A graph has as many calls as a sample of the elite's report, after a flush that writes twice the L2 cache.
A single call is launched without a graph, as the judge does it. There are two forms, with their times in `samples`:
`all`, and `judge`, which does what the judge does: it writes inputs again before the flush, and releases persisting
lines once per round of 12 pairs instead of before each sample.

**Places.** Torch begins large tensors at multiples of 2 MiB. The judge places inputs and results one after the other in
one block of memory, at random distances. `shifted` has the times of long graphs and of samples whose inputs and results
lie as the judge's do: drawn anew, by `--seed`, for each elite, shape and kind of graph. Samples have twelve graphs by
side then, as many as a round of the judge has pairs, and two otherwise.

Elites named by `--first` say more: their shifted places are drawn `--draws` times, so that an interval is that of the
draws, and samples have a third form, `plain`, which is launched as the judge's are: on a stream of its own, in a graph
that the driver instantiates without torch's flags and uploads beforehand.

A sample that the host queued late is timed again; `late` counts those that were late each time. Times of either side
have their deciles, so that a second state of the card can be seen.

Elite and seed never share inputs: a kernel that loads with `evict_last` leaves lines in the cache that a flush does not
displace, and the other would find them. The driver is told to release such lines before each graph, too.

After an error of the card nothing else runs in the process: it ends with a status of its own, `BROKEN`. `--resume` goes
on with the elites that have no row in `--out`.
"""

import argparse
import importlib.util
import itertools
import json
import math
import multiprocessing
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.cold_graphs import (
    WARM_UPS,
    Call,
    Flush,
    InterleavedTimes,
    elapsed_us,
    graphed,
    interleaved,
    over_draws,
    warmed_up,
)
from benchmarks.shifted_places import Copies, PlacedCall, ShiftedMemory, TorchMemory

FEWEST, MOST = 4, 64
"""Fewest and most calls in a long graph."""
MOST_BYTES = 16 * 2**30
"""Most memory for inputs of a shape."""
GRAPH_US = 1000.0
"""Target duration of a long graph: the events around it take a microsecond, 0.1 %."""
HOLD_CYCLES, HOLD_CALL_CYCLES = 100_000, 800_000
"""Cycles that the card is held before a graph, 50 us, and before a call without one: the host queues them in less."""
FORMS = ("all", "judge")
"""Forms of samples: after a flush alone, and with all that the judge does before it."""
PLAIN = "plain"
"""Form of samples as `all`, launched as the judge's are; of the elites that are first."""
BROKEN = 75
"""Exit status after an error that ends the use of the card in this process, as an illegal access does."""
ROUND_PAIRS = 12
"""Pairs of a round of the judge: it reuses the places of a round in the next one."""
COMPILES_S = 300
"""Seconds for the compilation of all kernels; those that are not compiled by then are compiled when they are timed."""
FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, OSError)
"""Errors of kernels that do not run on this machine."""


def load(path: Path, entry: str, configuration: Mapping[str, Any]) -> Callable[..., Any]:
    """Import a kernel's file. Returns its function; its autotuners have one configuration if one agrees."""
    spec = importlib.util.spec_from_file_location(f"kernel_{abs(hash(str(path)))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = {key: value for key, value in _flat(configuration)}
    for item in vars(module).values():
        if hasattr(item, "configs") and hasattr(item, "prune_configs"):
            agreeing = [
                config
                for config in item.configs
                if all(wanted.get(key, value) == value for key, value in config.all_kwargs().items())
            ]
            item.configs = agreeing[:1] or item.configs
    found: Callable[..., Any] = getattr(module, entry)
    return found


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield key, value


def arguments(operator: Mapping[str, Any], dims: Mapping[str, int], device: str, seed: int) -> list[Any]:
    """Draw the arguments of one call: tensors, then numbers."""
    generator, found = torch.Generator(device).manual_seed(seed), list[Any]()
    for item in operator["inputs"]:
        sizes = [dims[extent] if isinstance(extent, str) else extent for extent in item["shape"]]
        dtype, low, high = getattr(torch, item["dtype"]), item.get("low"), item.get("high")
        if dtype.is_floating_point:
            drawn = torch.randn(sizes, device=device, generator=generator)
            if low is not None and isinstance(high, int | float):
                drawn = low + (high - low) * torch.rand(sizes, device=device, generator=generator)
            found.append(drawn.to(dtype))
        else:
            above = 2 if dtype == torch.bool else dims[high] if isinstance(high, str) else int(high)
            found.append(torch.randint(int(low or 0), above, sizes, device=device, generator=generator).to(dtype))
    values = (scalar["value"] for scalar in operator.get("scalars") or ())
    return found + [dims[value] if isinstance(value, str) and value in dims else value for value in values]


@dataclass(frozen=True)
class ShapeInputs:
    """Inputs of a shape, made once for all elites.

    Attributes:
        halves: Copies of the arguments with different values; elite and seed use different halves.
        calls: Number of calls of a long graph.
        bytes: Bytes of a call's inputs and results.
    """

    halves: tuple[Copies, Copies]
    calls: int
    bytes: int

    @classmethod
    def draw(
        cls, seed: Callable[..., Any], operator: Mapping[str, Any], dims: Mapping[str, int], flush: Flush, device: str
    ) -> "ShapeInputs":
        """Draw as many copies as a long graph of the seed has calls, timed and untimed, for each half."""
        first = arguments(operator, dims, device, 0)
        read, written = bytes_of(first), bytes_of(seed(*first))
        warmed_up(seed, first, device)
        calls, lead = 2, 1
        if device != "cpu":
            alone_us = min(elapsed_us(lambda: flush(), lambda: seed(*first), device)[0] for _ in range(WARM_UPS))
            calls = min(MOST, max(FEWEST, math.ceil(GRAPH_US / alone_us)))
            lead = min(MOST, math.ceil(flush.bytes / max(1, read + written)))
            calls = max(1, min(calls, MOST_BYTES // (2 * max(1, read)) - lead))
        count = calls + lead
        drawn = [first, *(arguments(operator, dims, device, number) for number in range(1, 2 * count))]
        return cls((drawn[:count], drawn[count:]), calls, read + written)


def write_again(copies: Copies) -> None:
    """Write all tensors of two bytes or more per element again, with the values that they have."""
    for item in (item for copy in copies for item in copy):
        if isinstance(item, torch.Tensor) and item.element_size() > 1:
            item.mul_(1)


def bytes_of(items: Any) -> int:
    """Return the bytes of all tensors among items."""
    listed = items if isinstance(items, list | tuple) else [items]
    return sum(item.numel() * item.element_size() for item in listed if isinstance(item, torch.Tensor))


class ShapeTimer:
    """Timer of an elite and its seed at one shape. The halves of the inputs change sides after each pair.

    Args:
        elite: Function of the elite.
        seed: Function of the seed.
        inputs: Inputs of the shape.
        flush: Empties the cache.
        device: Name of a device for torch.
        memory: Says where inputs and results lie.
    """

    def __init__(
        self,
        elite: Callable[..., Any],
        seed: Callable[..., Any],
        inputs: ShapeInputs,
        flush: Flush,
        device: str,
        memory: TorchMemory | ShiftedMemory,
    ) -> None:
        self._functions, self._inputs, self._flush, self._device = (elite, seed), inputs, flush, device
        self._memory, self._numbers = memory, itertools.count()
        for function in self._functions:
            warmed_up(function, inputs.halves[0][0], device)

    def long(self, seconds: float) -> InterleavedTimes:
        """Time long graphs, after untimed calls."""
        calls = self._inputs.calls
        elites, seeds = (
            [(self._before(self._graph(graph[calls:])), self._graph(graph[:calls])) for graph in side]
            for side in self._laid_out(len(self._inputs.halves[0]), 2)
        )
        return interleaved(elites, seeds, calls, self._device, seconds)

    def samples(self, calls: int, forms: Sequence[str], seconds: float) -> dict[str, dict[str, Any]]:
        """Time samples of so many calls, in each form."""
        calls = min(calls, self._inputs.calls)
        number = max(2, min(self._memory.graphs, MOST_BYTES // max(1, 2 * calls * self._inputs.bytes)))
        laid, found = self._laid_out(calls, number), {}
        sides = [[(self._sample(graph), graph) for graph in side] for side in laid]
        for name in (form for form in forms if form != PLAIN):
            elites, seeds = (
                [(self._before(again=graph if name == "judge" else (), calls=calls), call) for call, graph in side]
                for side in sides
            )
            found[name] = vars(interleaved(elites, seeds, calls, self._device, seconds))
        if PLAIN in forms:
            try:
                found[PLAIN] = self._plain(laid, calls, seconds)
            except FAILURES as error:  # The other forms say something without it.
                print(f"no plain samples: {type(error).__name__}: {error}", flush=True)
        return found

    def _plain(self, laid: Sequence[Sequence[Sequence[PlacedCall]]], calls: int, seconds: float) -> dict[str, Any]:
        """Time samples that are launched as the judge's are."""
        with nullcontext() if self._device == "cpu" else torch.cuda.stream(torch.cuda.Stream()):
            before = self._before(calls=calls)
            elites, seeds = ([(before, self._sample(graph, plain=True)) for graph in side] for side in laid)
            return vars(interleaved(elites, seeds, calls, self._device, seconds))

    def _laid_out(self, calls: int, number: int) -> list[list[list[PlacedCall]]]:
        """Return the calls of so many graphs of either side, in turn of one half of the inputs and the other one."""
        copies = [
            [
                half[(graph // 2 * calls + call) % len(half)]
                for graph in range(number)
                for half in (self._inputs.halves[(graph + side) % 2],)
                for call in range(calls)
            ]
            for side in range(2)
        ]
        laid = self._memory.lay_out(list(zip(self._functions, copies, strict=True)))
        return [[side[at : at + calls] for at in range(0, len(side), calls)] for side in laid]

    def _sample(self, graph: Sequence[PlacedCall], *, plain: bool = False) -> Call:
        return self._graph(graph, plain=plain) if len(graph) > 1 else graph[0].call

    def _graph(self, graph: Sequence[PlacedCall], *, plain: bool = False) -> Call:
        return graphed([each.call for each in graph], self._device, plain=plain)

    def _before(self, lead: Call | None = None, *, again: Sequence[PlacedCall] = (), calls: int = 2) -> Call:
        """Return what is done before calls: flush, hold the card while the host queues, and untimed calls.

        As the judge does it if inputs are to be written again.
        """

        def before() -> None:
            if not again or next(self._numbers) % (2 * ROUND_PAIRS) == 0:
                self._flush.release()
            write_again([each.arguments for each in again])
            self._flush()
            if self._device != "cpu":
                torch.cuda._sleep(HOLD_CYCLES if calls > 1 else HOLD_CALL_CYCLES)
            if lead is not None:
                lead()

        return before


def functions(operator: Mapping[str, Any], place: Path) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Import an elite and its operator's first seed from the folder of its certificate."""
    certificate = json.loads((place / "certificate.json").read_text())
    for name, source in (("elite", certificate["source"]), ("seed", operator["seeds"][0])):
        (place / f"{name}.py").write_text(source)
    elite = load(place / "elite.py", operator["entry"], certificate["configuration"])
    return elite, load(place / "seed.py", operator["entry"], {})


class ArchiveTimer:
    """Timer of the elites of one operator.

    Args:
        operator: The operator, as in a zip file.
        device: Name of a device for torch.
        seconds: Seconds of pairs in long graphs, per elite and shape; samples have half of that for each form.
        forms: Names of the forms of samples.
        shifted: Memory with the judge's places.
    """

    def __init__(
        self, operator: Mapping[str, Any], device: str, seconds: float, forms: Sequence[str], shifted: ShiftedMemory
    ) -> None:
        self._operator, self._device, self._seconds, self._forms = operator, device, seconds, forms
        self._flush, self._inputs, self._shifted = Flush(device), dict[str, ShapeInputs](), shifted

    def row(self, shown: Mapping[str, Any], place: Path, draws: int | None = None) -> dict[str, Any]:
        """Time one elite at the shapes that its search timed it at.

        Args:
            shown: The elite in the manifest.
            place: Folder of its certificate.
            draws: Number of draws of shifted places, if it has the plain form, too; None for one, without.
        """
        certificate = json.loads((place / "certificate.json").read_text())
        report, both = certificate["verdict"], functions(self._operator, place)
        shapes = {_key(shape["dims"]): shape for shape in self._operator["shapes"]}
        by_shape = {
            result["shape"]: self._timed(shapes[result["shape"]], both, result, draws)
            for result in report["shapes"]
            if result["shape"] in shapes and result.get("mid_us")
        }
        weights = {shape: shapes[shape].get("weight", 1.0) for shape in by_shape}
        independent = overall({shape: each["ratio"] for shape, each in by_shape.items()}, weights)
        ours = (report.get("over_pacer") or {}).get("mid")
        return {
            "operator": self._operator["name"],
            "cell": shown["cell"],
            "candidate": shown["candidate"],
            "confirmed": report["kind"] == "confirm",
            "configuration": certificate["configuration"],
            "ours": ours,
            "independent": independent,
            "difference_percent": 100 * (independent / ours - 1) if independent and ours else None,
            "shapes": by_shape,
        }

    def _timed(
        self,
        shape: Mapping[str, Any],
        both: tuple[Callable[..., Any], Callable[..., Any]],
        result: Mapping[str, Any],
        draws: int | None,
    ) -> dict[str, Any]:
        key = _key(shape["dims"])
        if key not in self._inputs:
            drawn = ShapeInputs.draw(both[1], self._operator, shape["dims"], self._flush, self._device)
            self._inputs[key] = drawn
        inputs, calls = self._inputs[key], (result.get("samples") or {}).get("calls")
        found, forms = [], self._forms if draws is None else (*self._forms, PLAIN)
        for memory in (TorchMemory(), *[self._shifted] * (draws or 1)):
            timer = ShapeTimer(*both, inputs, self._flush, self._device, memory)
            found.append(vars(timer.long(self._seconds)))
            if calls:
                found[-1] |= {"samples": timer.samples(calls, forms, self._seconds / 2)}
        return found[0] | {"shifted": over_draws(found[1:])}


def overall(ratios: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Return the weighted geometric mean over shapes; None if there are none."""
    total = sum(weights.values())
    return math.exp(sum(weights[key] * math.log(ratio) for key, ratio in ratios.items()) / total) if total else None


def _key(dims: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in sorted(dims.items()))


def opened(archive: Path, folder: Path, most: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Unpack a zip file. Returns its operator, and its measured elites, the best first."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    found = [elite for each in manifest["devices"] if each["provenance"] == "measured" for elite in each["elites"]]
    operator: dict[str, Any] = json.loads((folder / "operator.json").read_text())
    return operator, sorted(found, key=lambda each: -float(each["objective"]))[:most]


def rows(
    archives: Sequence[Path], folder: Path, chosen: argparse.Namespace, known: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Time the measured elites of zip files: those that are to be first, then by file, the best first.

    Those whose candidates are known already are left out.
    """
    shifted, tasks = ShiftedMemory(chosen.device, chosen.seed), []
    for number, archive in enumerate(archives):
        place = folder / str(number)
        operator, found = opened(archive, place, chosen.most)
        timer = ArchiveTimer(operator, chosen.device, chosen.seconds, chosen.forms, shifted)
        tasks += [(operator["name"], timer, shown, place / Path(shown["files"][0]).parent) for shown in found]
    rank = {name: number for number, name in enumerate(chosen.first)}
    tasks.sort(key=lambda task: rank.get(f"{task[0]}/{task[2]['cell']}", rank.get(task[0], len(rank))))
    for name, timer, shown, place in tasks:
        if shown["candidate"] in known:
            continue
        try:
            yield timer.row(shown, place, chosen.draws if f"{name}/{shown['cell']}" in rank else None)
        except FAILURES as error:  # It does not run here.
            said = f"{type(error).__name__}: {error}"
            yield {"operator": name, "cell": shown["cell"], "candidate": shown["candidate"], "error": said}


def broken(row: Mapping[str, Any]) -> bool:
    """Return True if a row's error is one of the card, after which nothing else runs in the process."""
    return any(text in row.get("error", "") for text in ("CUDA error", "Triton Error [CUDA]"))


def compile_all(archives: Sequence[Path], device: str, most: int, processes: int) -> None:
    """Run all kernels once at each shape, in processes beside each other, so that Triton's cache has them."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = []
        for number, archive in enumerate(archives):
            place = Path(folder) / str(number)
            operator, found = opened(archive, place, most)
            tasks += [(operator, place / Path(shown["files"][0]).parent, device) for shown in found]
        with multiprocessing.get_context("fork").Pool(processes) as pool, suppress(multiprocessing.TimeoutError):
            pool.map_async(_compile, tasks, chunksize=1).get(COMPILES_S)


def _compile(task: tuple[Mapping[str, Any], Path, str]) -> None:
    operator, place, device = task
    try:
        both = functions(operator, place)
        for shape in operator["shapes"]:
            given = arguments(operator, shape["dims"], device, 0)
            for function in both:
                function(*given)
    except FAILURES as error:  # The timing says it again.
        print(f"{place}: {type(error).__name__}: {error}", file=sys.stderr)


def main() -> None:
    """Time all elites, print each, and write the rows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archives", nargs="+", type=Path, help="zip files that `reef export` wrote")
    options.add_argument("--seconds", type=float, default=3.0, help="of pairs, per elite and shape")
    options.add_argument("--most", type=int, default=50, help="elites per archive, the best first")
    options.add_argument("--processes", type=int, default=1, help="that compile kernels before any is timed")
    options.add_argument("--forms", nargs="*", choices=FORMS, default=FORMS, help="forms of samples")
    options.add_argument("--first", nargs="*", default=(), metavar="OPERATOR[/CELL]", help="timed first")
    options.add_argument("--draws", type=int, help="of shifted places, for elites named by --first")
    options.add_argument("--resume", action="store_true", help="go on with elites that have no row in --out")
    options.add_argument("--seed", type=int, default=0, help="of the shifted places")
    options.add_argument("--limit", type=float, default=math.inf, help="seconds after which no other elite is begun")
    options.add_argument("--device", default="cuda")
    options.add_argument("--out", type=Path, default=Path("independent.json"))
    chosen, begun = options.parse_args(), time.monotonic()
    if chosen.processes > 1:
        compile_all(chosen.archives, chosen.device, chosen.most, chosen.processes)
    found: list[dict[str, Any]] = json.loads(chosen.out.read_text())["rows"] if chosen.resume else []
    known = [each["candidate"] for each in found]
    with tempfile.TemporaryDirectory() as folder:
        for each in rows(chosen.archives, Path(folder), chosen, known):
            found.append(each)
            said = each.get("independent", each.get("error"))
            print(f"{len(found)}: {each['operator']} {said}", flush=True)
            write(chosen.out, found, chosen.device)
            if broken(each):
                raise SystemExit(BROKEN)
            if time.monotonic() - begun > chosen.limit:
                print(f"ended after {chosen.limit:g} s", flush=True)
                return
    print({name: value for name, value in write(chosen.out, found, chosen.device).items() if name != "rows"})


def write(path: Path, found: Sequence[Mapping[str, Any]], device: str) -> dict[str, Any]:
    """Write the rows that there are; an end at any time leaves whole ones. Returns what was written."""
    apart = [abs(each["difference_percent"]) for each in found if each.get("difference_percent") is not None]
    document = {
        "card": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "elites": len(found),
        "compared": len(apart),
        "within_half_percent": sum(each <= 0.5 for each in apart),
        "largest_percent": max(apart, default=None),
        "rows": found,
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)
    return document


if __name__ == "__main__":
    main()
