"""Exported packages on a card: right at random shapes, share of them that a kernel serves, times at some.

    python benchmarks/exported_card.py PACKAGE_FOLDER ... --out exported_card.json

It needs torch, triton and the folders that `reef export --out` wrote, nothing of Kernelreef. A row a package: `right`
of `shapes` random shapes (log-uniform in the ranges, a third of the sizes not divisible by 16) where the error against
float64 is at most twice that of PyTorch; `served_share` of those that a kernel computes; `over_compiled`: geometric
mean, at `timed` shapes, of the time of torch.compile with dynamic shapes over that of the package, both in CUDA graphs;
`side_stream`, `other_gpus`: right at a served shape on a stream of its own, and on each further GPU;
`first_call_s`: median seconds of the first call at a shape; `host_us`: median host time of a call without a graph.
"""

import argparse
import importlib
import json
import math
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from triton.testing import do_bench

ODD, ALIGNED, SLACK = 1 / 3, 16, 2.0
MOST_ELEMENTS = 2**27
"""Maximum elements of all tensors of a shape, so that float64 references fit."""
CALLS = 200
"""Number of calls over which host time is averaged."""


def several(results: Any) -> Sequence[torch.Tensor]:
    """The results of a function as a sequence."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)


class ExportedCase:
    """One package with its operation, examples and reference."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        (self.name,) = (path.parent.name for path in folder.glob("*/operation.py"))
        self.operation = importlib.import_module(f"{self.name}.operation")
        self.examples = importlib.import_module(f"{self.name}.examples")
        reference = importlib.import_module(f"{self.name}.reference")
        self.entry = importlib.import_module(self.name).__all__[0]
        self.call: Callable[..., Any] = getattr(self.operation, self.entry)
        self.reference: Callable[..., Any] = getattr(reference, self.entry)

    def resized(self, rng: random.Random) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
        """Draw sizes, and replace those of the example at the first shape of the search by them."""
        shape = rng.choice(self.examples.TIMED)
        known = dict(part.split("=") for part in shape.split(","))
        drawn = {}
        for name, (low, high) in self.operation.RANGES:
            size = int(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
            size -= size % ALIGNED if rng.random() >= ODD and size >= ALIGNED else 0
            drawn[name] = max(low, min(high, size)) if low != high else int(known[name])
        given = self.examples.DIMENSIONS
        tensors = []
        for (_, dtype, low, high), extents, bound in zip(self.examples.INPUTS[shape], *given, strict=True):
            sizes = tuple(drawn[extent] if isinstance(extent, str) else extent for extent in extents)
            tensors.append((sizes, dtype, low, drawn.get(bound, high)))
        scalars = tuple(
            drawn.get(name, value)
            for name, value in zip(self.examples.SIZED_SCALARS, self.examples.SCALARS[shape], strict=True)
        )
        return tensors, scalars

    def draw(self, tensors: Sequence[tuple[Any, ...]], device: str, seed: int) -> list[torch.Tensor]:
        """Draw tensors."""
        generator = torch.Generator(device).manual_seed(seed)
        return [self.examples._tensor(*tensor, device, generator) for tensor in tensors]

    def is_right(self, tensors: Sequence[torch.Tensor], scalars: Sequence[Any]) -> bool:
        """True if the error against float64 is at most twice PyTorch's."""
        exact = self.reference(*(each.double() if each.is_floating_point() else each for each in tensors), *scalars)
        for have, own, want in zip(
            *map(several, (self.call(*tensors, *scalars), self.reference(*tensors, *scalars), exact)), strict=True
        ):
            if not have.is_floating_point():
                if not torch.equal(have, own):
                    return False
                continue
            size = want.norm().clamp_min(1e-30)
            error, allowed = ((each.double() - want).norm() / size for each in (have, own))
            if not error <= SLACK * allowed + torch.finfo(have.dtype).eps:
                return False
        return True


def elsewhere(case: ExportedCase, sizes: Sequence[tuple[Any, ...]], scalars: Sequence[Any]) -> dict[str, object]:
    """Right at one shape on a stream that is not the default one, and on GPUs that are not the current one."""
    tensors = case.draw(sizes, "cuda", 0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        side = case.is_right(tensors, scalars)
    torch.cuda.synchronize()
    others = range(1, torch.cuda.device_count())
    right = [case.is_right(case.draw(sizes, f"cuda:{index}", 0), scalars) for index in others]
    return {"side_stream": side, "other_gpus": right, "current_after": torch.cuda.current_device()}


def graphed_us(function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    """Median microseconds of a call in a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(*arguments)
    return 1000 * float(do_bench(graph.replay, return_mode="median"))


def host_us(function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    """Microseconds of the host for a call that does not wait for the card."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(CALLS):
        function(*arguments)
    spent = time.perf_counter() - began
    torch.cuda.synchronize()
    return 1e6 * spent / CALLS


def row(case: ExportedCase, asked: argparse.Namespace) -> dict[str, object]:
    """Try one package at random shapes."""
    rng = random.Random(asked.seed)
    right, served, first_s, host, gains, reasons = 0, 0, [], [], [], {}
    compiled = torch.compile(case.reference, dynamic=True)
    tried = 0
    places: dict[str, object] = {}
    while tried < asked.shapes:
        sizes, scalars = case.resized(rng)
        if sum(math.prod(shape) for shape, *_ in sizes) > MOST_ELEMENTS:
            continue
        tensors = case.draw(sizes, asked.device, tried)
        tried += 1
        reason = case.operation.why_not(tensors, scalars)
        served += reason is None
        if reason is not None:
            reasons[reason.split(" at shapes")[0]] = reasons.get(reason.split(" at shapes")[0], 0) + 1
        began = time.perf_counter()
        case.call(*tensors, *scalars)
        first_s.append(time.perf_counter() - began)
        right += case.is_right(tensors, scalars)
        if asked.device == "cuda" and reason is None and not places:
            places = elsewhere(case, sizes, scalars)
        if asked.device == "cuda" and reason is None and len(gains) < asked.timed:
            arguments = (*tensors, *scalars)
            host.append(host_us(case.call, arguments))
            gains.append(math.log(graphed_us(compiled, arguments) / graphed_us(case.call, arguments)))
    return {
        "operator": case.entry,
        "shapes": tried,
        "right": right,
        "served_share": served / tried,
        "not_served": reasons,
        "timed": len(gains),
        "over_compiled": math.exp(statistics.mean(gains)) if gains else None,
        "first_call_s": statistics.median(first_s),
        "host_us": statistics.median(host) if host else None,
        **places,
    }


def main() -> None:
    """Try all packages, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--timed", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("exported_card.json"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [row(ExportedCase(folder.resolve()), asked) for folder in asked.packages]
    card = torch.cuda.get_device_name() if asked.device == "cuda" else asked.device
    asked.out.write_text(json.dumps({"card": card, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    print(asked.out.read_text())


if __name__ == "__main__":
    main()
