"""Exported packages in a small model with varying batch: eager, under torch.compile, in CUDA graphs, and in both.

    python -m benchmarks.exported_model PACKAGE_FOLDER ... --out rows

The model is a decoder on random weights: a layer over a prompt, a step over a cache in pages, and a head with loss. It
calls eight operators by name; those without a package run their definition. The same model with all definitions says
what is right. It needs torch, triton and the folders that `reef export --out` wrote.

A row (`rows/model.json`): `right` of `compared` results, one for each way and batch, with an error of at most twice
that of the definitions in bfloat16, both against the definitions in float32. `served`: at each batch, the operators
that a kernel computes. `graphs`: how many graphs torch.compile made for all batches. `ms`: median milliseconds of a
step by way and batch; `pytorch` and `pytorch_compiled` are the model without packages. `other_gpus`: for each, the ways
that are right there, too. `failed`: ways that ended with an error.
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks.exported_card import write_row

ROOT = Path(__file__).parents[1]
DEFINITIONS = {
    **{
        name: ROOT / "operators" / name / "reference.py"
        for name in (
            "rmsnorm",
            "softmax",
            "cross_entropy",
            "matmul",
            "attention",
            "paged_decode",
            "w4a16_matmul",
        )
    },
    "relu2_gate": ROOT / "examples" / "relu2_gate" / "reference.py",
}
MOST_BATCH = 8
TOKENS, HEADS, GROUP, WIDTH, INNER, WORDS = 24, 2, 4, 128, 2048, 4096
PAGES, PAGE, MOST_PAGES = 64, 16, 8
FEATURES = HEADS * GROUP * WIDTH
SLACK, LEAST_ERROR = 2.0, 2.0**-8
"""Factor over the error of bfloat16 by the definitions, and an error that is allowed anyway: one rounding."""

Operators = dict[str, Callable[..., Any]]
Packages = dict[str, tuple[Callable[..., Any], Callable[..., str | None]]]
Results = tuple[torch.Tensor, torch.Tensor]
Step = Callable[[torch.Tensor, torch.Tensor], Results]


class Decoder(torch.nn.Module):
    """One layer over a prompt, one step over a cache, and a head.

    Args:
        operators: Functions by name.
    """

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.operators = operators
        generator = torch.Generator().manual_seed(0)

        def weight(*sizes: int, scale: float = 1.0) -> torch.nn.Parameter:
            drawn = torch.randn(sizes, generator=generator) * scale
            return torch.nn.Parameter(drawn.bfloat16(), requires_grad=False)

        def whole(low: int, high: int, *sizes: int) -> torch.Tensor:
            return torch.randint(low, high, sizes, generator=generator, dtype=torch.int32)

        self.first, self.second = weight(FEATURES), weight(FEATURES)
        self.joined = weight(FEATURES, 3 * FEATURES, scale=FEATURES**-0.5)
        self.codes = torch.nn.Buffer(whole(-(2**31), 2**31 - 1, FEATURES // 128, 16, FEATURES))
        self.scales = weight(FEATURES // 128, FEATURES, scale=FEATURES**-0.5 / 8)
        self.gate = weight(FEATURES, INNER, scale=FEATURES**-0.5)
        self.up = weight(FEATURES, INNER, scale=FEATURES**-0.5)
        self.down = weight(INNER, FEATURES, scale=INNER**-0.5)
        self.gain = weight(INNER)
        self.keys, self.values = (weight(PAGES, PAGE, HEADS, WIDTH) for _ in range(2))
        self.table = torch.nn.Buffer(whole(0, PAGES, MOST_BATCH, MOST_PAGES))
        self.full = torch.nn.Buffer(whole(0, MOST_PAGES, MOST_BATCH))
        self.last = torch.nn.Buffer(whole(1, PAGE + 1, MOST_BATCH))
        self.head = weight(FEATURES, WORDS, scale=FEATURES**-0.5)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> Results:
        """Return the mean loss over all tokens, and the probabilities of the next word of each sequence."""
        call, batch, heads = self.operators, x.shape[0], HEADS * GROUP
        flat = x.reshape(-1, FEATURES)
        joined = call["matmul"](call["rmsnorm"](flat, self.first), self.joined)
        parts = joined.view(batch, TOKENS, 3, heads, WIDTH).permute(2, 0, 3, 1, 4).contiguous()
        mixed = call["attention"](parts[0], parts[1], parts[2], True).transpose(1, 2)
        grouped = mixed.reshape(-1, FEATURES // 128, 128).contiguous()
        flat = flat + call["w4a16_matmul"](grouped, self.codes, self.scales)
        inner = call["rmsnorm"](flat, self.second)
        gated = call["relu2_gate"](call["matmul"](inner, self.gate), call["matmul"](inner, self.up), self.gain)
        flat = flat + call["matmul"](gated, self.down)
        query = flat.view(batch, TOKENS, FEATURES)[:, -1].reshape(batch, HEADS, GROUP, WIDTH).contiguous()
        cache = (self.keys, self.values, self.table[:batch], self.full[:batch], self.last[:batch])
        seen = call["paged_decode"](query, *cache).reshape(batch, FEATURES)
        loss = call["cross_entropy"](call["matmul"](flat, self.head), target)
        return loss, call["softmax"](call["matmul"](seen, self.head))


def loaded(path: Path, name: str) -> Callable[..., Any]:
    """Return a function of a file."""
    spec = importlib.util.spec_from_file_location(f"definition_of_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # torch.compile imports it by name.
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


def packaged(folders: Sequence[Path]) -> Packages:
    """Return the operator of each package, and its function that says why no kernel computes a call."""
    found = {}
    for folder in folders:
        sys.path.insert(0, str(folder.resolve()))
        (name,) = (path.parent.name for path in folder.glob("*/operation.py"))
        package = importlib.import_module(name)
        (entry,) = (each for each in package.__all__ if each in DEFINITIONS)
        found[entry] = (getattr(package, entry), package.why_not)
    return found


class Watched:
    """Operator that notes whether a kernel computes its calls.

    Args:
        function: The operator.
        why_not: Function that returns the reason why no kernel computes a call; None if one does.
    """

    def __init__(self, function: Callable[..., Any], why_not: Callable[..., str | None]) -> None:
        self._function, self._why_not = function, why_not
        self.reasons: list[str | None] = []

    def __call__(self, *arguments: Any) -> Any:
        """Call the operator."""
        tensors = tuple(each for each in arguments if isinstance(each, torch.Tensor))
        self.reasons.append(self._why_not(tensors, tuple(arguments[len(tensors) :])))
        return self._function(*arguments)


def graphed(step: Step, x: torch.Tensor, target: torch.Tensor) -> Step:
    """Return a step as one CUDA graph, after a first run at the same shapes."""
    step(x, target)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream(x.device)):  # The default one is that of the first device.
        found = step(x, target)

    def replay(*_: torch.Tensor) -> Results:
        graph.replay()
        return found

    return replay


def median_ms(step: Step, x: torch.Tensor, target: torch.Tensor, rounds: int) -> float:
    """Return the median time of a step."""
    spent = []
    for _ in range(rounds):
        if x.is_cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        step(x, target)
        if x.is_cuda:
            torch.cuda.synchronize()
        spent.append(1e3 * (time.perf_counter() - began))
    return statistics.median(spent)


def error_of(found: Results, exact: Results) -> float:
    """Return the largest error of the results, relative to the largest value of each."""
    return max(
        float((one.double() - other.double()).abs().max() / other.double().abs().max())
        for one, other in zip(found, exact, strict=True)
    )


class Trial:
    """The model with packages and without, in every way.

    Args:
        packages: Operators of packages, and their functions that say why no kernel computes a call.
        device: Name of a device.
        backend: Backend of torch.compile.
        told: What the row says besides, such as its `operator`.

    Attributes:
        row: All that is known.
    """

    def __init__(self, packages: Packages, device: str, backend: str, **told: str) -> None:
        self._definitions = {name: loaded(path, name) for name, path in DEFINITIONS.items()}
        self._ours = self._definitions | {name: function for name, (function, _) in packages.items()}
        self._watched = {name: Watched(*each) for name, each in packages.items()}
        self._device, self._backend = device, backend
        self._models = {
            "pytorch": Decoder(self._definitions).to(device),
            "kernels": Decoder(self._ours).to(device),
        }
        self._compiled = {
            name: torch.compile(model, dynamic=True, fullgraph=True, backend=backend)
            for name, model in self._models.items()
        }
        self._exact = Decoder(self._definitions).to(device).float()
        self.row: dict[str, Any] = {"operator": "model", "packages": sorted(packages), "device": device, **told}
        self.row |= {"compared": 0, "right": 0, "wrong": [], "failed": [], "served": {}, "other_gpus": [], "ms": {}}

    def run(self, batch: int, rounds: int) -> None:
        """Run the model at a batch in every way, and time it."""
        x, target = self._drawn(batch)
        with self._noted("served", batch):
            self.row["served"][str(batch)] = self._served(x, target)
        ways: dict[str, Step] = dict(self._models)
        ways |= {f"{name}_compiled": step for name, step in self._compiled.items()}
        for name, step in ways.items():
            with self._noted(name, batch):
                self._run_once(name, step, x, target, rounds)
            if self._device == "cuda":
                with self._noted(f"{name}_graph", batch):
                    self._run_once(f"{name}_graph", graphed(step, x, target), x, target, rounds)
        self.row["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    def run_elsewhere(self, batch: int) -> None:
        """Run the model with the packages on each further GPU, in every way."""
        x, target = self._drawn(batch)
        for at in range(1, torch.cuda.device_count() if self._device == "cuda" else 0):
            place, right = f"cuda:{at}", dict[str, bool]()
            there = Decoder(self._ours).to(place)
            compiled = torch.compile(there, dynamic=True, fullgraph=True, backend=self._backend)
            given = x.to(place), target.to(place)
            with torch.cuda.device(at):
                for name, step in {"kernels": there, "kernels_compiled": compiled}.items():
                    for way, made in {name: step, f"{name}_graph": None}.items():
                        with self._noted(f"{place} {way}", batch):
                            found = (made or graphed(step, *given))(*given)
                            here = (found[0].to(self._device), found[1].to(self._device))
                            right[way] = self._compare(f"{place} {way}", here, x, target)
            self.row["other_gpus"].append(right)

    @contextlib.contextmanager
    def _noted(self, name: str, batch: int) -> Iterator[None]:
        """Note an error of one way, so that the others are run."""
        try:
            yield
        except (RuntimeError, triton.runtime.errors.TritonError) as error:
            self.row["failed"].append([name, batch, str(error)[:300]])
            print(f"{name} at batch {batch} failed: {str(error)[:600]}", flush=True)

    def _run_once(self, name: str, step: Step, x: torch.Tensor, target: torch.Tensor, rounds: int) -> None:
        if name.startswith("kernels"):
            self._compare(name, step(x, target), x, target)
        self.row["ms"].setdefault(name, {})[str(len(x))] = median_ms(step, x, target, rounds)

    def _drawn(self, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(batch)
        x = torch.randn(batch, TOKENS, FEATURES, generator=generator).bfloat16()
        return x.to(self._device), torch.randint(0, WORDS, (batch * TOKENS,), generator=generator).to(self._device)

    def _served(self, x: torch.Tensor, target: torch.Tensor) -> list[str]:
        """Return the operators all of whose calls a kernel computes."""
        for each in self._watched.values():
            each.reasons.clear()
        Decoder(self._definitions | self._watched).to(self._device)(x, target)
        return sorted(name for name, each in self._watched.items() if not any(each.reasons))

    def _compare(self, name: str, found: Results, x: torch.Tensor, target: torch.Tensor) -> bool:
        right = self._exact(x.float(), target)
        error = error_of(found, right)
        most = max(LEAST_ERROR, SLACK * error_of(self._models["pytorch"](x, target), right))
        is_right = error <= most
        self.row["compared"] += 1
        self.row["right"] += is_right
        self.row["wrong"] += [] if is_right else [[name, len(x), error, most]]
        return is_right


def main() -> None:
    """Try the packages in the model, and write the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("exported_card"))
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 3, 5, MOST_BATCH])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--name", default="model", help="name of the row and of its file")
    parser.add_argument("--provenance", default="", help="origin of the packages, in words")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / f"{asked.name}.json"
    with torch.no_grad():
        told = {"operator": asked.name, "provenance": asked.provenance}
        trial = Trial(packaged(asked.packages), asked.device, asked.backend, **told)
        for batch in asked.batches:
            trial.run(batch, asked.rounds)
            write_row(trial.row, path)
            print(f"batch {batch}: right {trial.row['right']} of {trial.row['compared']}", flush=True)
        trial.run_elsewhere(asked.batches[-1])
    write_row(trial.row, path)
    print(json.dumps(trial.row), flush=True)


if __name__ == "__main__":
    main()
