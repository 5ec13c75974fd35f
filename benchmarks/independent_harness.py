"""Confirmed elites in another harness: what a search says of each beside what CUDA graphs with cold inputs say.

    reef export SEARCH --out one.zip                                            # for each search
    python benchmarks/independent_harness.py one.zip two.zip --seconds 5 --out independent.json

It needs torch and triton and the zip files, nothing of Kernelreef. A graph calls a kernel once for each of several
copies of the inputs, together larger than four L2 caches, so that each call finds its inputs in memory. The graphs of
elite and seed are replayed in turn, in changing order; the ratio is the median over the pairs, by shape, and over the
shapes their weighted geometric mean. `ours` is the speedup over the same seed that the elite's report has, and
`difference_percent` is `independent` over `ours`, less 1. Of a kernel with several configurations the elite's is taken.
"""

import argparse
import importlib.util
import json
import math
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

Call = Callable[[], Any]
L2_TIMES, FEWEST, MOST = 4, 8, 64
"""Inputs of all calls in a graph over the L2 cache; least and most calls in a graph."""
L2_BYTES = 50 * 2**20
"""L2 cache of an H100 and an H200, if torch does not say."""
WARM_UPS = 3


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


def graphed(function: Callable[..., Any], copies: Sequence[Sequence[Any]], device: str) -> Call:
    """Return a call that runs a function once on each copy of its arguments; on a card it replays a graph."""
    if device == "cpu":
        return lambda: [function(*copy) for copy in copies]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function(*copies[0])
    torch.cuda.synchronize()
    graph, kept = torch.cuda.CUDAGraph(), list[Any]()
    with torch.cuda.graph(graph):
        kept += [function(*copy) for copy in copies]  # Each result has memory of its own, as each input has.

    def replay(kept: list[Any] = kept) -> None:
        graph.replay()

    return replay


def elapsed_us(call: Call, device: str) -> float:
    """Return the microseconds of a call on its device."""
    if device == "cpu":
        begun = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - begun)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return 1000 * float(begin.elapsed_time(end))


def interleaved(elite: Call, seed: Call, device: str, seconds: float) -> tuple[float, int]:
    """Time two calls in turn. Returns the median of the seed's time over the elite's, and the number of pairs."""
    for _ in range(WARM_UPS):
        elapsed_us(elite, device), elapsed_us(seed, device)
    until, ratios = time.monotonic() + seconds, list[float]()
    while time.monotonic() < until or len(ratios) < 2:
        order = (elite, seed) if len(ratios) % 2 else (seed, elite)
        took = {call: elapsed_us(call, device) for call in order}
        ratios.append(took[seed] / took[elite])
    return statistics.median(ratios), len(ratios)


def copies_of(operator: Mapping[str, Any], dims: Mapping[str, int], device: str) -> list[list[Any]]:
    """Draw as many copies of the arguments as exceed the L2 cache by far, with different values."""
    first = arguments(operator, dims, device, 0)
    size = sum(item.numel() * item.element_size() for item in first if isinstance(item, torch.Tensor))
    cache = L2_BYTES if device == "cpu" else getattr(torch.cuda.get_device_properties(0), "L2_cache_size", L2_BYTES)
    count = min(MOST, max(FEWEST, math.ceil(L2_TIMES * cache / max(1, size)))) if device != "cpu" else 2
    return [first, *(arguments(operator, dims, device, number) for number in range(1, count))]


def row(
    operator: Mapping[str, Any], shown: Mapping[str, Any], folder: Path, device: str, seconds: float
) -> dict[str, Any]:
    """Time one elite at the shapes that its search timed it at."""
    place = folder / Path(shown["files"][0]).parent
    report = json.loads((place / "report.json").read_text())
    configuration = json.loads((place / "configuration.json").read_text())
    seed_file = folder / "seed.py"
    seed_file.write_text(operator["seeds"][0])
    seed = load(seed_file, operator["entry"], {})
    elite = load(place / "candidate.py", operator["entry"], configuration)
    weights = {_key(shape["dims"]): (shape["dims"], shape.get("weight", 1.0)) for shape in operator["shapes"]}
    logs, total, by_shape = 0.0, 0.0, dict[str, float]()
    for result in report["shapes"]:
        if result["shape"] in weights and result.get("mid_us"):
            dims, weight = weights[result["shape"]]
            copies = copies_of(operator, dims, device)
            ratio, _ = interleaved(graphed(elite, copies, device), graphed(seed, copies, device), device, seconds)
            by_shape[result["shape"]] = ratio
            logs, total = logs + weight * math.log(ratio), total + weight
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


def rows(archive: Path, folder: Path, device: str, seconds: float, most: int) -> Iterator[dict[str, Any]]:
    """Time the measured elites of a zip file, the best first."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    operator = json.loads((folder / "operator.json").read_text())
    manifest = json.loads((folder / "manifest.json").read_text())
    found = [elite for each in manifest["devices"] if each["provenance"] == "measured" for elite in each["elites"]]
    for shown in sorted(found, key=lambda each: -float(each["objective"]))[:most]:
        try:
            yield row(operator, shown, folder, device, seconds)
        except (RuntimeError, ValueError, TypeError, AttributeError, OSError) as error:  # It does not run here.
            yield {"operator": operator["name"], "cell": shown["cell"], "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Time all elites, print each, and write the rows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archives", nargs="+", type=Path, help="zip files that `reef export` wrote")
    options.add_argument("--seconds", type=float, default=3.0, help="of pairs, per elite and shape")
    options.add_argument("--most", type=int, default=50, help="elites per archive, the best first")
    options.add_argument("--device", default="cuda")
    options.add_argument("--out", type=Path, default=Path("independent.json"))
    chosen = options.parse_args()
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
