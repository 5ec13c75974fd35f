"""Exported packages on a card: right at random shapes, share of them that a kernel serves, times at some.

    python benchmarks/exported_card.py PACKAGE_FOLDER ... --out rows

It needs torch, triton and the folders that `reef export --out` wrote, nothing of Kernelreef. A package's row is written
to `rows/OPERATOR.json` when it is known, first without times. `--seconds` limits the checks of a package, `--timing-s`
its times. Processes with one `--lock` share the card while they check, and have it in turn while they time: for some
seconds each, so that none waits long. `--lock GATE ROOM` takes the locks of a service on the same card.

A row: `right` of `shapes` random shapes (log-uniform in the ranges, a third of the sizes not divisible by 16; `skipped`
are too large for a float64 reference) where the error against float64 is at most twice that of PyTorch, and a few
roundings.
`served_share`: share of those that a kernel computes. `not_slower_share`: share of the `compared` ones that a kernel
computes in at most 1.05 times the time of eager PyTorch; `slower` are others. `package_not_slower_share`: the same with
those that the package leaves to PyTorch. `missed_share`: share of all shapes that it leaves to PyTorch, though a kernel
takes less than its time over 1.05.
`over_compiled`, `over_exact`: geometric means, at `timed` shapes, of another time over that of the package: of
torch.compile with dynamic shapes, first called at a shape of the search, and of the candidate's own code, which Triton
compiles for exactly that shape. The latter needs the candidates' sources in `PACKAGE_FOLDER/sources`. All of these are
in CUDA graphs.
`host_us`, `plain_us`: median host time of a call without a graph, and of the same kernels launched by the candidate's
own code. `first_call_s`: median seconds of the first call at a shape; `first_call_most_s`: the largest.
`side_stream`, `other_gpus`: right at a served shape on a stream of its own, and on each further GPU.
With `--rivals FILE` nothing of that is done. The file is a list of objects: `operator`, `sizes` and the `source` of the
best kernel of a search at these sizes alone. A row then has `rivals`: the times of both, of eager PyTorch, and whether
a kernel of the package served the shape; `over_rival` is the geometric mean of a rival's time over that of the package.
"""

import argparse
import contextlib
import contextvars
import fcntl
import importlib
import importlib.util
import json
import math
import random
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import triton
from triton.testing import do_bench

ODD, ALIGNED, SLACK = 1 / 3, 16, 2.0
ROUNDINGS = 4
"""Roundings of float32 that a result may be off whatever PyTorch's is: that of one number may be exact by chance."""
NOT_SLOWER = 1.05
"""Maximum time relative to PyTorch's of a kernel that counts as not slower: times of few calls differ by less."""
DESCRIBING = "make_tensor_descriptor("
"""Call in a kernel's text for which Triton needs scratch memory."""
MOST_ELEMENTS = 2**26
"""Maximum elements of all tensors of a shape, so that float64 references of several processes fit."""
CALLS, ROUNDS = 40, 7
"""Number of calls over which host time is averaged, and of averages whose median counts."""
SHORT_MS, LONG_MS = 2, 30
"""Milliseconds of repeats where two times are compared, and where their ratio is told."""
RIVAL_ROUNDS = 3
"""Number of rounds in which a package, a rival and PyTorch are timed in turn; their medians are told."""
TURN_S = 3.0
"""Seconds after which a process that times lets others have the card."""

Drawn = tuple[list[tuple[Any, ...] | None], tuple[Any, ...]]


def several(results: Any) -> Sequence[torch.Tensor]:
    """Return the results of a function as a sequence."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def wide(tensor: Any) -> Any:
    """Return a tensor in float64, if it is one of floats."""
    return tensor.double() if tensor is not None and tensor.is_floating_point() else tensor


def extents(tensors: Sequence[tuple[Any, ...] | None]) -> list[list[int]]:
    """Return the sizes of the tensors that are given."""
    return [list(each[0]) for each in tensors if each is not None]


class ExportedCase:
    """One package with its operation, examples, reference and, if given, the sources of its elites."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        self.folder = folder
        (self.name,) = (path.parent.name for path in folder.glob("*/operation.py"))
        self.operation = importlib.import_module(f"{self.name}.operation")
        self.examples = importlib.import_module(f"{self.name}.examples")
        reference = importlib.import_module(f"{self.name}.reference")
        self.entry = importlib.import_module(self.name).__all__[0]
        self.call: Callable[..., Any] = getattr(self.operation, self.entry)
        self.reference: Callable[..., Any] = getattr(reference, self.entry)
        self._sources: dict[str, Callable[..., Any] | None] = {}

    def resized(self, rng: random.Random) -> Drawn:
        """Draw sizes, and replace those of the example at one shape of the search by them."""
        shape = rng.choice(self.examples.TIMED)
        known = dict(part.split("=") for part in shape.split(","))
        drawn = {}
        for name, allowed in self.operation.RANGES:
            if not isinstance(allowed, range):  # Kernels are made for these few sizes, as for the width of a head.
                drawn[name] = int(known[name])
                continue
            low, high = allowed[0], allowed[-1]
            size = int(math.exp(rng.uniform(math.log(max(1, low)), math.log(high + 1))))
            size -= size % ALIGNED if rng.random() >= ODD and size >= ALIGNED else 0
            drawn[name] = max(low, min(high, size))
        return self.sized(shape, drawn)

    def sized(self, shape: str, drawn: dict[str, int]) -> Drawn:
        """Replace the sizes of the example at a shape of the search by others."""
        given = self.examples.DIMENSIONS
        tensors: list[tuple[Any, ...] | None] = []
        for known_tensor, extents, bound in zip(self.examples.INPUTS[shape], *given, strict=True):
            if known_tensor is None:
                tensors.append(None)
                continue
            _, dtype, low, high, *rest = known_tensor
            sizes = tuple(drawn[extent] if isinstance(extent, str) else extent for extent in extents)
            tensors.append((sizes, dtype, low, drawn.get(bound, high), *rest))
        scalars = tuple(
            drawn.get(name, value)
            for name, value in zip(self.examples.SIZED_SCALARS, self.examples.SCALARS[shape], strict=True)
        )
        return tensors, scalars

    def draw(self, tensors: Sequence[tuple[Any, ...] | None], device: str, seed: int) -> list[Any]:
        """Draw tensors; None for those that are not given."""
        generator = torch.Generator(device).manual_seed(seed)
        return [None if each is None else self.examples._tensor(*each, device, generator) for each in tensors]

    def is_right(self, tensors: Sequence[Any], scalars: Sequence[Any]) -> bool:
        """Return True if the error against float64 is at most twice PyTorch's, and a few roundings."""
        exact = self.reference(*map(wide, tensors), *scalars)
        for have, own, want in zip(
            *map(several, (self.call(*tensors, *scalars), self.reference(*tensors, *scalars), exact)), strict=True
        ):
            if not have.is_floating_point():
                if not torch.equal(have, own):
                    return False
                continue
            size = want.norm().clamp_min(1e-30)
            error, allowed = ((each.double() - want).norm() / size for each in (have, own))
            roundings = max(torch.finfo(have.dtype).eps, ROUNDINGS * torch.finfo(torch.float32).eps)
            if not error <= SLACK * allowed + roundings:
                return False
        return True

    def kernel(self, tensors: Sequence[Any], scalars: Sequence[Any]) -> Callable[..., Any] | None:
        """Return a function that computes some tensors by a kernel, whatever the tree says; None without one."""
        operation = self.operation
        modules = [each for each in vars(operation).values() if hasattr(each, "choose") and hasattr(each, "sizes_of")]
        found = operation._look_for(lambda *sizes: modules, tuple(tensors), tuple(scalars))
        return None if found is None else lambda *given: operation._run(found[0], given[: len(tensors)], found[2])

    def exact(self, tensors: Sequence[Any], scalars: Sequence[Any]) -> Callable[..., Any] | None:
        """Return the own code of the candidate that serves some tensors; None if it is not known, or tunes itself."""
        found = self.operation._look_for(self.operation._select, tuple(tensors), tuple(scalars))
        name = "" if found is None else found[0].__module__.rpartition(".")[2]
        if name not in self._sources:
            path = self.folder / "sources" / f"{name}.py"
            is_fixed = name and path.exists() and "autotune" not in path.read_text()
            self._sources[name] = self.loaded(name, path) if is_fixed else None
        return self._sources[name]

    def loaded(self, name: str, path: Path) -> Callable[..., Any]:
        """Return the function of a candidate's own file."""
        spec = importlib.util.spec_from_file_location(f"source_{self.name}_{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        function: Callable[..., Any] = getattr(module, self.entry)
        return with_scratch(function) if DESCRIBING in path.read_text() else function


def with_scratch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with an allocator of scratch memory: kernels that make descriptors need it at each launch.

    It is set for these calls alone, so that a package has to bring its own.
    """

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    def call(*arguments: Any) -> Any:
        context = contextvars.copy_context()
        context.run(triton.set_allocator, allocate)
        return context.run(function, *arguments)

    return call


def elsewhere(case: ExportedCase, sizes: Sequence[tuple[Any, ...]], scalars: Sequence[Any]) -> dict[str, object]:
    """Call it at one shape on a stream that is not the default one, and on GPUs that are not the current one."""
    tensors = case.draw(sizes, "cuda", 0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        side = case.is_right(tensors, scalars)
    torch.cuda.synchronize()
    others = range(1, torch.cuda.device_count())
    right = [case.is_right(case.draw(sizes, f"cuda:{index}", 0), scalars) for index in others]
    return {"side_stream": side, "other_gpus": right, "current_after": torch.cuda.current_device()}


def graphed_us(function: Callable[..., Any], arguments: Sequence[Any], repeat_ms: int = LONG_MS) -> float:
    """Return the median microseconds of a call in a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(*arguments)
    return 1000 * float(do_bench(graph.replay, warmup=repeat_ms, rep=repeat_ms, return_mode="median"))


def host_us(functions: Mapping[str, Callable[..., Any]], arguments: Sequence[Any]) -> dict[str, float]:
    """Return the median microseconds of the host for calls that do not wait for the card, of functions in turn.

    Another process that takes the core for a while so meets all alike.
    """
    spent: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS + 1):  # The first one is not counted.
        for name, function in functions.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                function(*arguments)
            spent[name].append(1e6 * (time.perf_counter() - began) / CALLS)
    torch.cuda.synchronize()
    return {name: statistics.median(each[1:]) for name, each in spent.items()}


class CardTurns:
    """Lock of a card between processes, shared or exclusive; none without files.

    Args:
        paths: Files of the lock: the last is held; those before it are held while it is waited for.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        for path in paths:
            path.touch()
        # Another user's file may be read only, which is enough.
        self._files = [path.open() for path in paths]
        self._how, self._since = fcntl.LOCK_UN, 0.0

    @contextlib.contextmanager
    def held(self, how: int) -> Iterator[None]:
        """Hold it until the context ends."""
        self._take(how)
        try:
            yield
        finally:
            self._take(fcntl.LOCK_UN)

    def close(self) -> None:
        """Release it and close the files."""
        for file in self._files:
            file.close()

    def next(self) -> None:
        """Let others have the card, if it was held for long enough."""
        if time.monotonic() - self._since > TURN_S:
            self._take(self._how)

    def _take(self, how: int) -> None:
        for file in self._files:
            fcntl.flock(file, fcntl.LOCK_UN)
        if how != fcntl.LOCK_UN:
            for file in self._files:
                fcntl.flock(file, how)
            for file in self._files[:-1]:
                fcntl.flock(file, fcntl.LOCK_UN)
        self._how, self._since = how, time.monotonic()


def checked(
    case: ExportedCase, asked: argparse.Namespace, row: dict[str, Any]
) -> tuple[list[tuple[Drawn, int]], list[tuple[Drawn, int]]]:
    """Call a package at random shapes, and compare.

    Returns:
        The shapes that a kernel serves, with their seeds, and those that the package leaves to PyTorch as faster.
    """
    rng, deadline = random.Random(asked.seed), time.monotonic() + asked.seconds
    first_s, reasons, served, left = [], Counter[str](), list[tuple[Drawn, int]](), list[tuple[Drawn, int]]()
    row |= {"shapes": 0, "right": 0, "served_share": 0.0, "skipped": 0, "wrong": []}
    while row["shapes"] < asked.shapes and time.monotonic() < deadline:
        asked.turns.next()
        sizes, scalars = case.resized(rng)
        if sum(math.prod(shape) for shape in extents(sizes)) > MOST_ELEMENTS:
            row["skipped"] += 1
            continue
        seed = row["shapes"] + row["skipped"]
        try:
            tensors = case.draw(sizes, asked.device, seed)
            reason = case.operation.why_not(tensors, scalars)
            began = time.perf_counter()
            case.call(*tensors, *scalars)
            spent = time.perf_counter() - began
            right = case.is_right(tensors, scalars)
            if asked.device == "cuda" and reason is None and "side_stream" not in row:
                row |= elsewhere(case, sizes, scalars)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            row["skipped"] += 1
            continue
        except (RuntimeError, triton.runtime.errors.TritonError) as error:
            row["shapes"] += 1
            row["wrong"].append([extents(sizes), str(error)[:300]])
            continue
        first_s.append(spent)
        row["shapes"] += 1
        row["right"] += right
        row["wrong"] += [] if right else [extents(sizes)]
        if reason is None:
            served.append(((sizes, scalars), seed))
        else:
            reasons[reason.split(" at shapes")[0].split(" for shapes")[0].split(" = ")[0]] += 1
            left += [((sizes, scalars), seed)] if reason.startswith("PyTorch was faster") else []
    row["served_share"] = len(served) / max(1, row["shapes"])
    row |= {"not_served": dict(reasons), "first_call_s": statistics.median(first_s or [0.0])}
    row["first_call_most_s"] = max(first_s, default=0.0)
    return served, left


def timed(
    case: ExportedCase, served: Sequence[tuple[Drawn, int]], compiled: Callable[..., Any], asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield the times at some shapes that a kernel serves."""
    deadline = time.monotonic() + asked.timing_s / 2
    for (sizes, scalars), seed in served:
        if time.monotonic() > deadline:
            return
        asked.turns.next()
        tensors = case.draw(sizes, asked.device, seed)
        arguments = (*tensors, *scalars)
        exact = case.exact(tensors, scalars)
        torch.cuda.empty_cache()
        ways = {"own_us": case.call, "compiled_us": compiled, "exact_us": exact}
        known = {name: function for name, function in ways.items() if function is not None}
        graphed_us(case.call, arguments)  # The first one on an idle card has another clock.
        rounds = [{name: graphed_us(function, arguments) for name, function in known.items()} for _ in range(2)]
        yield {
            "sizes": extents(sizes),
            **{name: math.sqrt(math.prod(each[name] for each in rounds)) for name in known},
            "plain_us": None,
            **host_us({"host_us": case.call, **({"plain_us": exact} if exact else {})}, arguments),
        }


def mean_ratio(times: Sequence[dict[str, Any]], key: str) -> float | None:
    """Return the geometric mean of some other time over that of the package."""
    logs = [math.log(each[key] / each["own_us"]) for each in times if key in each]
    return math.exp(statistics.mean(logs)) if logs else None


def compare(
    case: ExportedCase, shapes: Sequence[tuple[Drawn, int]], asked: argparse.Namespace
) -> list[tuple[list[list[int]], float, float]]:
    """Time a kernel and eager PyTorch at some shapes. Returns the sizes with both times in microseconds."""
    deadline, found = time.monotonic() + asked.timing_s / 2, []
    for (sizes, scalars), seed in shapes:
        if time.monotonic() > deadline:
            break
        asked.turns.next()
        tensors = case.draw(sizes, asked.device, seed)
        arguments = (*tensors, *scalars)
        kernel = case.kernel(tensors, scalars)
        try:
            if kernel is not None:
                times = (graphed_us(each, arguments, SHORT_MS) for each in (kernel, case.reference))
                found.append((extents(sizes), *times))
        except torch.OutOfMemoryError:  # A graph keeps its memory, so two do not fit where the checks did.
            torch.cuda.empty_cache()
    return found


def shares(
    row: dict[str, Any],
    served: Sequence[tuple[list[list[int]], float, float]],
    left: Sequence[tuple[list[list[int]], float, float]],
) -> dict[str, Any]:
    """Return the shares of shapes at which the choice between a kernel and PyTorch is right, from those timed."""
    slower = [each for each in served if each[1] > NOT_SLOWER * each[2]]
    missed = [each for each in left if each[2] > NOT_SLOWER * each[1]]
    slow = row["served_share"] * len(slower) / max(1, len(served))
    return {
        "compared": len(served),
        "not_slower_share": row["served_share"] - slow,
        "package_not_slower_share": 1.0 - slow,
        "slower": slower,
        "compared_left": len(left),
        "missed_share": (1.0 - row["served_share"]) * len(missed) / max(1, len(left)),
        "missed": missed,
    }


def warm(
    case: ExportedCase, served: Sequence[tuple[Drawn, int]], compiled: Callable[..., Any], asked: argparse.Namespace
) -> tuple[list[tuple[Drawn, int]], int]:
    """Compile everything that is timed, because others may check on the card meanwhile.

    Returns:
        The served shapes, those that can be timed first, and how many these are.
    """
    ready, failed = [], []
    for (sizes, scalars), seed in served[: asked.timed]:
        asked.turns.next()
        tensors = case.draw(sizes, asked.device, seed)
        try:
            for function in (compiled, case.exact(tensors, scalars)):
                if function is not None:
                    function(*tensors, *scalars)
        except (RuntimeError, triton.runtime.errors.TritonError) as error:
            print("not timed:", sizes, str(error)[:300], flush=True)
            failed.append(((sizes, scalars), seed))
        else:
            ready.append(((sizes, scalars), seed))
    return [*ready, *served[asked.timed :], *failed], len(ready)


def write_row(row: dict[str, Any], path: Path) -> None:
    """Write a row with its card and versions, in place of an earlier state of it."""
    tools = {"torch": torch.__version__, "triton": triton.__version__, "python": sys.version.split()[0]}
    card = torch.cuda.get_device_name() if row["device"] == "cuda" else row["device"]
    path.write_text(json.dumps({"card": card, "versions": tools, "row": row}, indent=1) + "\n")


def compare_rivals(case: ExportedCase, asked: argparse.Namespace) -> None:
    """Time a package beside the best kernels of searches at single shapes, and write a row."""
    row: dict[str, Any] = {"operator": case.entry, "device": asked.device, "provenance": asked.provenance, "rivals": []}
    mine = [each for each in json.loads(asked.rivals.read_text()) if each["operator"] == case.entry]
    for at, rival in enumerate(mine):
        path = asked.out / f"{case.entry}_rival_{at}.py"
        path.write_text(rival["source"])
        try:
            told = timed_beside(case, case.loaded(f"rival_{at}", path), rival["sizes"], asked)
        except (RuntimeError, triton.runtime.errors.TritonError) as error:
            told = {"failed": str(error)[:300]}
            print("not compared:", rival["sizes"], str(error)[:300], flush=True)
        row["rivals"].append({**rival, "source": None, **told})
        row["over_rival"] = mean_ratio([each for each in row["rivals"] if "own_us" in each], "rival_us")
        write_row(row, asked.out / f"{case.entry}_rivals.json")
    print(json.dumps(row), flush=True)


def timed_beside(
    case: ExportedCase, rival: Callable[..., Any], sizes: dict[str, int], asked: argparse.Namespace
) -> dict[str, Any]:
    """Return whether a kernel of the package serves a shape, and on a card the times of it, a rival and PyTorch."""
    tensors, scalars = case.sized(case.examples.TIMED[0], sizes)
    with asked.turns.held(fcntl.LOCK_SH):
        given = case.draw(tensors, asked.device, 0)
        arguments = (*given, *scalars)
        ways = {"own_us": case.call, "rival_us": rival, "pytorch_us": case.reference}
        for name, function in ways.items():
            if asked.device == "cuda" or name != "rival_us":
                function(*arguments)
        served = case.operation.why_not(given, scalars) is None
    if asked.device != "cuda":
        return {"served": served}
    with asked.turns.held(fcntl.LOCK_EX):
        graphed_us(case.call, arguments)  # The first one on an idle card has another clock.
        rounds = [{name: graphed_us(way, arguments) for name, way in ways.items()} for _ in range(RIVAL_ROUNDS)]
    return {"served": served, **{name: statistics.median(each[name] for each in rounds) for name in ways}}


def measure(case: ExportedCase, asked: argparse.Namespace) -> None:
    """Try one package at random shapes, and write its row."""
    row: dict[str, Any] = {"operator": case.entry, "device": asked.device, "provenance": asked.provenance}
    compiled = torch.compile(case.reference, dynamic=True)

    path = asked.out / f"{case.entry}.json"
    with asked.turns.held(fcntl.LOCK_SH):
        served, left = checked(case, asked, row)
        write_row(row, path)
    if asked.device != "cuda":
        return
    first = case.examples.TIMED[0]  # Inductor chooses by the sizes of the first call.
    with contextlib.suppress(torch.OutOfMemoryError):  # Others are not kept waiting: it compiles longer than it runs.
        compiled(*case.examples.draw(first, asked.device), *case.examples.SCALARS[first])
    with asked.turns.held(fcntl.LOCK_SH):
        served, ready = warm(case, served, compiled, asked)
    with asked.turns.held(fcntl.LOCK_EX):
        times: list[dict[str, Any]] = []
        for each in timed(case, served[:ready], compiled, asked):
            times.append(each)
            host = [each["host_us"] for each in times]
            plain = [each["plain_us"] for each in times if each["plain_us"]]
            row |= {
                "timed": len(times),
                "over_compiled": mean_ratio(times, "compiled_us"),
                "over_exact": mean_ratio(times, "exact_us"),
                "host_us": statistics.median(host),
                "plain_us": statistics.median(plain) if plain else None,
                "times": times,
            }
        write_row(row, path)
        row |= shares(row, compare(case, served, asked), compare(case, left, asked))
        write_row(row, path)
    print(json.dumps({name: value for name, value in row.items() if name != "times"}), flush=True)


def main() -> None:
    """Try all packages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--timed", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--timing-s", type=float, default=600.0)
    parser.add_argument("--memory", type=float, default=1.0)
    parser.add_argument("--lock", type=Path, nargs="*", default=[])
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--provenance", default="")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("exported_card"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.device == "cuda":
        torch.cuda.set_per_process_memory_fraction(asked.memory)
    with contextlib.closing(CardTurns(asked.lock)) as asked.turns:
        for folder in asked.packages:
            case = ExportedCase(folder.resolve())
            measure(case, asked) if asked.rivals is None else compare_rivals(case, asked)


if __name__ == "__main__":
    main()
