"""Kernels side by side: all seeds, further files, the best known kernel and compiled baselines of a row, in one run.

    python -m benchmarks.side_by_side --rows 'rmsnorm M=4096,N=4096' 'attention' --out side_by_side.json
    python -m benchmarks.side_by_side --rows layernorm --kernels FOLDER --known benchmarks/results/anchor.json
    ncu --profile-from-start off ... python -m benchmarks.side_by_side --rows rmsnorm --profile best max_autotune

Rows are those of the anchor suite that start with a text. `FOLDER/<operator>/*.py` are further kernels. Kernels run in
this process, so they must be trusted. All are timed as the comparison of `searches` does it: cold CUDA graphs of a few
calls on different inputs, in changing order. `error` is the largest difference from the reference in float32, over the
reference's largest value. Max-autotune's choice is told: names, numbers and source of its kernels.

With `--profile` nothing is timed: kernels with one of the names run once between `cudaProfilerStart` and `Stop`.
"""

import argparse
import gc
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.baselines_alone import known_kernels
from benchmarks.record import write
from benchmarks.suites import ANCHOR, SuiteEntry
from service.operators.catalogue import parse_operator
from workers import driver
from workers.baselines.figures import summarise
from workers.baselines.head_to_head import ROUNDS, HeadToHead, Interlude
from workers.baselines.messages import PACER
from workers.baselines.native import natives_of
from workers.baselines.preparation import FAILURES
from workers.device_kernels import DeviceKernels, compile_copies, compile_support
from workers.inputs import draw
from workers.protocol import Device, Operator, Shape

ROOT = Path(__file__).parents[1]
SETS, SETS_BYTES = 8, 2**30
"""Fewest sets of inputs, and bytes of all sets that are aimed at."""
SOURCE_CHARS = 20_000
BEST, MAX_AUTOTUNE = "best", "max_autotune"
Function = Callable[..., Any]


class RowKernels:
    """All that computes one row, by name.

    Args:
        entry: The row.
        folder: Folder for sources that have no file.
    """

    def __init__(self, entry: SuiteEntry, folder: Path) -> None:
        self.entry, self._folder = entry, folder
        self.operator: Operator = parse_operator(entry.contract())
        self.reference: Function = imported(self._written("reference", self.operator.reference), entry.operator)
        self.functions: dict[str, Function] = {}

    def add_files(self, paths: Sequence[Path]) -> None:
        """Add kernels of files, by their names without ending."""
        for path in paths:
            self.functions[path.stem] = imported(path, self.entry.operator)

    def add_best(self, source: str) -> None:
        """Add the best known kernel."""
        self.functions[BEST] = imported(self._written("best", source), self.entry.operator)

    def add_baselines(self, names: Sequence[str]) -> None:
        """Add compiled forms of the reference, and PyTorch's own calls."""
        modes = {"compile": "default", MAX_AUTOTUNE: "max-autotune-no-cudagraphs"}
        for name in names:
            if name in modes:
                self.functions[name] = torch.compile(self.reference, mode=modes[name], dynamic=False, fullgraph=True)
            if name == "native":
                found = natives_of(self.operator, dict(self.entry.dims))
                self.functions |= {native: _spread(function) for native, function in found.items()}

    def _written(self, name: str, source: str) -> Path:
        path = self._folder / f"{name}_{self.entry.operator}_{abs(hash(self.entry.key))}.py"
        path.write_text(source)
        return path


def _spread(function: Callable[[Sequence[torch.Tensor]], Any]) -> Function:
    """Return a function of single arguments for one of a sequence of tensors."""
    return lambda *arguments: function([each for each in arguments if isinstance(each, torch.Tensor)])


def imported(path: Path, entry: str) -> Function:
    """Import a kernel's file and return its function."""
    spec = importlib.util.spec_from_file_location(f"kernel_{path.stem}_{abs(hash(str(path)))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Function = getattr(module, entry)
    return found


def drawn(operator: Operator, dims: Mapping[str, int], count: int, device: str) -> list[list[Any]]:
    """Draw the arguments of so many calls, tensors and then numbers."""
    shape, scalars = Shape(dims=dict(dims)), operator.scalar_values(dict(dims))
    sets = (
        draw(operator, shape, "normal", bytes([number] * 16), device=torch.device(device)) for number in range(count)
    )
    return [[*tensors, *scalars] for tensors in sets]


def error_of(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest expected value."""
    pairs = zip(*((each if isinstance(each, list | tuple) else [each]) for each in (found, expected)), strict=True)
    return max(
        float((one.float() - other.float()).abs().max() / other.float().abs().max().clamp(min=1e-30))
        for one, other in pairs
    )


def checked(kernels: RowKernels, arguments: Sequence[Any]) -> tuple[dict[str, Function], dict[str, Any]]:
    """Run each kernel once, and compare it with the reference. Returns those that ran, and what is known of each."""
    expected, ran, told = kernels.reference(*arguments), {}, {}
    for name, function in kernels.functions.items():
        begun = time.perf_counter()
        try:
            error = error_of(function(*arguments), expected)
        except FAILURES as failure:
            told[name] = {"reason": f"{type(failure).__name__}: {failure}"[:300]}
            continue
        ran[name] = function
        told[name] = {"error": error, "ready_s": round(time.perf_counter() - begun, 2)}
    return ran, told


def tuned() -> list[Any]:
    """List TorchInductor's kernels in this process."""
    kind = import_module("torch._inductor.runtime.triton_heuristics").CachingAutotuner
    return [item for item in gc.get_objects() if issubclass(type(item), kind)]  # Of weak proxies, too.


def choices(kernels: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Describe kernels of TorchInductor, with the numbers that it chose."""
    for each in kernels:
        launchers = getattr(each, "launchers", ())
        config = launchers[0].config if len(launchers) == 1 else None
        source = getattr(each.fn, "src", "")
        yield {
            "kernel": getattr(each.fn, "__name__", "?"),
            "numbers": None if config is None else str(config),
            "source": str(source)[:SOURCE_CHARS],
        }


class SideBySide:
    """Timer of a card.

    Args:
        device: Hardware class of the card.
    """

    def __init__(self, device: Device) -> None:
        card = driver.open_card(0)
        torch.cuda.set_device(0)
        support = DeviceKernels(compile_support(device.target) | compile_copies(device.target))
        self._interlude = Interlude(support, card.l2_bytes, torch.device("cuda", 0))

    def times(self, functions: Mapping[str, Function], sets: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Time functions in one run, relative to the first of them."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        timer, failed = HeadToHead(self._interlude, stream, len(sets)), dict[str, str]()
        first = next(iter(functions))
        for name, function in functions.items():
            try:
                timer.enter(PACER if name == first else name, lambda number, function=function: function(*sets[number]))
            except FAILURES as error:
                failed[name] = f"{type(error).__name__}: {error}"[:300]
        found = summarise("", timer.run(ROUNDS), failed)
        told = {name: each.model_dump() for name, each in found.figures.items()}
        told[first] = {"time_us": found.pacer_us, "time_half_width": found.pacer_half_width, "over_pacer": 1.0}
        return {"beside": first, "times": told, "pairs": found.pairs, "failed": failed}


def kernels_of(entry: SuiteEntry, asked: argparse.Namespace, known: Mapping[str, Any], folder: Path) -> RowKernels:
    """Collect the kernels of a row."""
    kernels = RowKernels(entry, folder)
    if entry.key in known:
        kernels.add_best(known[entry.key][0])
    home = ROOT / "operators" / entry.operator / "seeds"
    kernels.add_files(sorted(home.glob("*.py")))
    if asked.kernels is not None:
        kernels.add_files(sorted((asked.kernels / entry.operator).glob("*.py")))
    kernels.add_baselines(asked.baselines)
    if asked.names:
        kernels.functions = {name: each for name, each in kernels.functions.items() if name in asked.names}
    return kernels


def profile(kernels: RowKernels, names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Run kernels once between the marks of the profiler, after a first run without."""
    functions = {name: each for name, each in kernels.functions.items() if name in names}
    for name, function in functions.items():
        for marked in (False, True):
            if marked:
                torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
            function(*arguments)
            torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
        print(f"profiled {kernels.entry.key}: {name}", flush=True)


def measured(entry: SuiteEntry, asked: argparse.Namespace, known: Mapping[str, Any], timer: SideBySide | None) -> Any:
    """Time or profile one row; None if it is profiled."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        kernels = kernels_of(entry, asked, known, Path(folder))
        size = max(1, kernels.operator.input_bytes(dict(entry.dims)))
        count = 1 if asked.profile else max(SETS, min(64, SETS_BYTES // size))
        sets = drawn(kernels.operator, entry.dims, count, asked.device)
        if asked.profile:
            profile(kernels, asked.profile, sets[0])
            return None
        before = tuned()
        ran, told = checked(kernels, sets[0])
        fresh = [each for each in tuned() if all(each is not other for other in before)]
        row = {"row": entry.key, "kernels": told, "choices": list(choices(fresh))}
        return row | (timer.times(ran, sets) if timer is not None and ran else {})


def main() -> None:
    """Time the rows, and write each when it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", required=True, help="rows of the anchor suite, by their beginnings")
    parser.add_argument("--kernels", type=Path, help="a folder of further kernels, by operator")
    parser.add_argument("--known", type=Path, help="a file of searches, for the best known kernels")
    parser.add_argument("--baselines", nargs="*", default=["compile", MAX_AUTOTUNE, "native"])
    parser.add_argument("--names", nargs="*", default=[], help="kernels and baselines, by name; all by default")
    parser.add_argument("--profile", nargs="*", default=[], help="names of kernels to run between marks")
    parser.add_argument("--class", dest="target", type=Device.parse, default=Device.parse("h200"))
    parser.add_argument("--device", default="cuda", help="of torch; with cpu, kernels only run")
    parser.add_argument("--out", type=Path, default=Path("side_by_side"))
    asked = parser.parse_args()
    known, rows = known_kernels(asked.known), list[dict[str, Any]]()
    timer = SideBySide(asked.target) if asked.device == "cuda" and not asked.profile else None
    for entry in (entry for text in asked.rows for entry in ANCHOR if entry.key.startswith(text)):
        begun = time.monotonic()
        try:
            row = measured(entry, asked, known, timer)
        except FAILURES as error:
            row = {"row": entry.key, "reason": f"{type(error).__name__}: {error}"[:500]}
        if row is not None:
            row["wall_s"] = round(time.monotonic() - begun, 1)
            rows.append(row)
            write("side_by_side", rows, asked.out)
            times = {name: round(each["time_us"], 2) for name, each in row.get("times", {}).items()}
            print(json.dumps({"row": entry.key, "times": times, "reason": row.get("reason")}), flush=True)
        torch.compiler.reset()
        gc.collect()


if __name__ == "__main__":
    main()
