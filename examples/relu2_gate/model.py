"""What an exported kernel is worth in a small model: gated feed-forward layers, timed with it and without.

    python model.py --package relu2_gate_kernels --tokens 4096 --out model.json

Each way runs the same layers on the same weights. `with_kernel` calls the package's operator, the others the
definition; `compiled` is torch.compile, `graph` a CUDA graph. Times are medians of whole forward passes, of all ways in
turn, so that a clock that drifts is nobody's advantage. Results are held against eager PyTorch's.
"""

import argparse
import importlib
import json
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

HIDDEN = 1024
ROUNDS = 50


class Layer(torch.nn.Module):
    def __init__(self, features, activation):
        super().__init__()
        self.norm = torch.nn.RMSNorm(HIDDEN)
        self.gate = torch.nn.Linear(HIDDEN, features, bias=False)
        self.up = torch.nn.Linear(HIDDEN, features, bias=False)
        self.down = torch.nn.Linear(features, HIDDEN, bias=False)
        self.scale = torch.nn.Parameter(torch.ones(features))
        self.activation = activation

    def forward(self, x):
        inner = self.norm(x)
        return x + self.down(self.activation(self.gate(inner), self.up(inner), self.scale))


def model(layers, features, activation, device):
    torch.manual_seed(0)
    stack = torch.nn.Sequential(*(Layer(features, activation) for _ in range(layers)))
    return stack.to(device, torch.bfloat16).requires_grad_(False)


def captured(function, x):
    """The function's call as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = function(x)

    def replay(_):
        graph.replay()
        return y

    return replay


def once_us(function, x):
    if not x.is_cuda:
        start = time.perf_counter()
        function(x)
        return (time.perf_counter() - start) * 1e6
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function(x)
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1e3


def ways(definition, kernel, x, layers, features):
    """The model in every way that works on the input's device, by name."""
    plain, ours = (model(layers, features, each, x.device) for each in (definition, kernel))
    found = {"eager": plain, "compiled": torch.compile(plain)}
    found |= {"with_kernel": ours, "with_kernel_compiled": torch.compile(ours)}
    for function in found.values():
        function(x)
    if x.is_cuda:
        found |= {f"{name}_graph": captured(function, x) for name, function in list(found.items())}
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--package", default="relu2_gate_kernels", help="what was exported")
    options.add_argument("--tokens", type=int, default=4096)
    options.add_argument("--features", type=int, default=14336)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    definition = importlib.import_module("reference").relu2_gate
    package = importlib.import_module(chosen.package)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(chosen.tokens, HIDDEN, dtype=torch.bfloat16, device=device)
    functions = ways(definition, package.relu2_gate, x, chosen.layers, chosen.features)
    expected = functions["eager"](x).float()
    shapes = [(chosen.tokens, chosen.features)] * 2 + [(chosen.features,)]
    tensors = [torch.empty(shape, dtype=x.dtype, device=device) for shape in shapes]
    furthest = {
        name: float((function(x).float() - expected).norm() / expected.norm()) for name, function in functions.items()
    }
    times = {name: [] for name in functions}
    for _ in range(chosen.rounds):
        for name, function in functions.items():
            times[name].append(once_us(function, x))
    told = {
        "device": torch.cuda.get_device_name() if x.is_cuda else "cpu",
        "torch": torch.__version__,
        "tokens": chosen.tokens,
        "features": chosen.features,
        "layers": chosen.layers,
        "rounds": chosen.rounds,
        "why_not": package.why_not(tensors),
        "median_us": {name: round(statistics.median(each), 2) for name, each in times.items()},
        "relative_difference": furthest,
    }
    print(json.dumps(told, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
