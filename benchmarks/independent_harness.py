"""Confirmed elites in another harness: what a search says of each beside what CUDA graphs with cold inputs say.

    reef export SEARCH --out one.zip                                            # for each search
    python benchmarks/independent_harness.py one.zip two.zip --seconds 1 --processes 16 --out harness.json

It needs torch and triton and the zip files, nothing of Kernelreef. A graph has as many calls as take a millisecond, on
copies of the inputs in turn, which together are larger than four L2 caches: each call finds its inputs in memory. The
card is held while the host queues a graph. The graphs of elite and seed are replayed in turn, in changing order; the
ratio is the median over the pairs, by shape, with the 95 % interval of a median, and over the shapes their weighted
geometric mean. `ours` is the speedup over the same seed that the elite's report has, and `difference_percent` is
`independent` over `ours`, less 1. Of a kernel with several configurations the elite's is taken. `--processes` compile
all kernels first, beside each other, into Triton's cache.
"""

import argparse
import importlib.util
import json
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Call = Callable[[], Any]
L2_TIMES, FEWEST, MOST = 4, 8, 64
"""Copies of the inputs over the L2 cache; fewest copies, and most copies or calls in a graph."""
GRAPH_US = 1000.0
"""Target duration of a graph: its start and the events around it take some microseconds, which is then 0.5 %."""
HOLD_CYCLES = 200_000
"""Cycles that the card is held before a graph, 100 us: the host queues an event and a graph in less."""
NORMAL = 1.96
L2_BYTES = 50 * 2**20
"""L2 cache of an H100 and an H200, if torch does not say."""
WARM_UPS = 3
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


def graphed(function: Callable[..., Any], copies: Sequence[Sequence[Any]], calls: int, device: str) -> Call:
    """Return a call that runs a function so many times, on copies of its arguments in turn; on a card it is a graph."""
    each = [copies[number % len(copies)] for number in range(calls)]
    if device == "cpu":
        return lambda: [function(*copy) for copy in each]
    graph, kept = torch.cuda.CUDAGraph(), list[Any]()
    with torch.cuda.graph(graph):
        kept += [function(*copy) for copy in each]  # Each result has memory of its own, as each input has.

    def replay(kept: list[Any] = kept) -> None:
        graph.replay()

    return replay


def warmed_up(function: Callable[..., Any], copy: Sequence[Any], device: str) -> None:
    """Compile a kernel, on a stream of its own, so that a graph can be captured afterwards."""
    if device == "cpu":
        function(*copy)
        return
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function(*copy)
    torch.cuda.synchronize()


def elapsed_us(call: Call, device: str) -> float:
    """Return the microseconds of a call on its device."""
    if device == "cpu":
        begun = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - begun)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(HOLD_CYCLES)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return 1000 * float(begin.elapsed_time(end))


@dataclass(frozen=True)
class InterleavedTimes:
    """Times of elite and seed at a shape, in microseconds per call, and the seed's over the elite's with its bounds."""

    elite_us: float
    seed_us: float
    low: float
    ratio: float
    high: float
    pairs: int
    calls: int


def interleaved(elite: Call, seed: Call, calls: int, device: str, seconds: float) -> InterleavedTimes:
    """Time two graphs of so many calls in turn."""
    for _ in range(WARM_UPS):
        elapsed_us(elite, device), elapsed_us(seed, device)
    until, elite_us, seed_us = time.monotonic() + seconds, list[float](), list[float]()
    while time.monotonic() < until or len(elite_us) < 2:
        order = ((elite, elite_us), (seed, seed_us)) if len(elite_us) % 2 else ((seed, seed_us), (elite, elite_us))
        for call, found in order:
            found.append(elapsed_us(call, device) / calls)
    ratios = sorted(its / mine for mine, its in zip(elite_us, seed_us, strict=True))
    low, high = median_bounds(len(ratios))
    medians = statistics.median(elite_us), statistics.median(seed_us), ratios[low], statistics.median(ratios)
    return InterleavedTimes(*medians, ratios[high], len(ratios), calls)


def median_bounds(count: int) -> tuple[int, int]:
    """Return the places, in ascending order, between which the median lies with a probability of 95 %."""
    low = max(0, math.floor((count - NORMAL * math.sqrt(count)) / 2))
    return low, count - 1 - low


def copies_of(operator: Mapping[str, Any], dims: Mapping[str, int], device: str) -> list[list[Any]]:
    """Draw as many copies of the arguments as exceed the L2 cache by far, with different values."""
    first = arguments(operator, dims, device, 0)
    size = sum(item.numel() * item.element_size() for item in first if isinstance(item, torch.Tensor))
    cache = L2_BYTES if device == "cpu" else getattr(torch.cuda.get_device_properties(0), "L2_cache_size", L2_BYTES)
    count = min(MOST, max(FEWEST, math.ceil(L2_TIMES * cache / max(1, size)))) if device != "cpu" else 2
    return [first, *(arguments(operator, dims, device, number) for number in range(1, count))]


def timed_shape(
    elite: Callable[..., Any], seed: Callable[..., Any], copies: Sequence[Sequence[Any]], device: str, seconds: float
) -> InterleavedTimes:
    """Time elite and seed on copies of their arguments."""
    for function in (elite, seed):
        warmed_up(function, copies[0], device)
    alone_us = min(elapsed_us(lambda: seed(*copies[0]), device) for _ in range(WARM_UPS))
    calls = min(MOST, max(len(copies), math.ceil(GRAPH_US / alone_us)))
    elites, seeds = (graphed(function, copies, calls, device) for function in (elite, seed))
    return interleaved(elites, seeds, calls, device, seconds)


def functions(
    operator: Mapping[str, Any], place: Path, configuration: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Import an elite and its operator's first seed."""
    seed_file = place / "seed.py"
    seed_file.write_text(operator["seeds"][0])
    seed = load(seed_file, operator["entry"], {})
    return load(place / "candidate.py", operator["entry"], configuration), seed


def row(
    operator: Mapping[str, Any], shown: Mapping[str, Any], folder: Path, device: str, seconds: float
) -> dict[str, Any]:
    """Time one elite at the shapes that its search timed it at."""
    place = folder / Path(shown["files"][0]).parent
    report = json.loads((place / "report.json").read_text())
    configuration = json.loads((place / "configuration.json").read_text())
    elite, seed = functions(operator, place, configuration)
    weights = {_key(shape["dims"]): (shape["dims"], shape.get("weight", 1.0)) for shape in operator["shapes"]}
    logs, total, by_shape = 0.0, 0.0, dict[str, dict[str, float]]()
    for result in report["shapes"]:
        if result["shape"] in weights and result.get("mid_us"):
            dims, weight = weights[result["shape"]]
            timed = timed_shape(elite, seed, copies_of(operator, dims, device), device, seconds)
            by_shape[result["shape"]] = vars(timed)
            logs, total = logs + weight * math.log(timed.ratio), total + weight
    independent = math.exp(logs / total) if total else None
    ours = (report.get("over_pacer") or {}).get("mid")
    return {
        "operator": operator["name"],
        "cell": shown["cell"],
        "candidate": shown["candidate"],
        "confirmed": report["kind"] == "confirm",
        "configuration": configuration,
        "ours": ours,
        "independent": independent,
        "difference_percent": 100 * (independent / ours - 1) if independent and ours else None,
        "shapes": by_shape,
    }


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


def rows(archive: Path, folder: Path, device: str, seconds: float, most: int) -> Iterator[dict[str, Any]]:
    """Time the measured elites of a zip file, the best first."""
    operator, found = opened(archive, folder, most)
    for shown in found:
        try:
            yield row(operator, shown, folder, device, seconds)
        except FAILURES as error:  # It does not run here.
            yield {
                "operator": operator["name"],
                "cell": shown["cell"],
                "candidate": shown["candidate"],
                "error": f"{type(error).__name__}: {error}",
            }


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
        both = functions(operator, place, json.loads((place / "configuration.json").read_text()))
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
    options.add_argument("--device", default="cuda")
    options.add_argument("--out", type=Path, default=Path("independent.json"))
    chosen = options.parse_args()
    if chosen.processes > 1:
        compile_all(chosen.archives, chosen.device, chosen.most, chosen.processes)
    found: list[dict[str, Any]] = []
    for archive in chosen.archives:
        with tempfile.TemporaryDirectory() as folder:
            for each in rows(archive, Path(folder), chosen.device, chosen.seconds, chosen.most):
                found.append(each)
                print(json.dumps(each), flush=True)
    apart = [abs(each["difference_percent"]) for each in found if each.get("difference_percent") is not None]
    document = {
        "card": torch.cuda.get_device_name() if chosen.device == "cuda" else chosen.device,
        "torch": torch.__version__,
        "command": " ".join(sys.argv),
        "elites": len(found),
        "compared": len(apart),
        "within_half_percent": sum(each <= 0.5 for each in apart),
        "largest_percent": max(apart, default=None),
        "rows": found,
    }
    chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    print({name: value for name, value in document.items() if name != "rows"})


if __name__ == "__main__":
    main()
