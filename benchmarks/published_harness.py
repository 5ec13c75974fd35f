"""A published kernel in a harness of its own: Triton's interpreter, real tensors on the CPU, no tracer of ours.

Examples at the end of the file do not run.

python -m benchmarks.published_harness FOLDER           # exit status 0 if the results are the reference's
python -m benchmarks.published_harness FOLDER --card    # compiled, on this machine's card
"""

import ast
import importlib
import json
import os
import runpy
import sys
import types
from contextlib import nullcontext, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0" if "--card" in sys.argv else "1"

import torch
import triton
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

from service.operators.catalogue import load_operator
from service.operators.joined_files import read_candidate
from workers.protocol import Input, Operator
from workers.tracer.needed import needed_part

ON_CARD = "--card" in sys.argv
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2, "float8_e4m3fn": 0.13, "int8": 1.0}
"""Largest relative or absolute difference by dtype: a hundred roundings of it; one step for quantised results."""
TF32 = 1e-2
"""The same of float32 results where the spec allows TF32, whose factors have the digits of float16."""
CARD = torch.device("cuda", 0)
INSTALLED = ("torch", "triton")
FEW = 257
"""Largest size of a dimension here; programs run one after the other."""


class OnTheHost(TorchFunctionMode):
    """Mode in which `cuda` is the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass a call on with the CPU in place of a card."""
        named = {key: host(value) for key, value in (kwargs or {}).items()}
        if func == torch.Tensor.is_cuda.__get__:
            return True
        if func == torch.Tensor.device.__get__:
            return CARD
        return args[0] if func == torch.Tensor.cuda else func(*map(host, args), **named)


def host(value: Any) -> Any:
    """Return the CPU for a card; other values as they are."""
    is_card = (isinstance(value, str) and value.startswith("cuda")) or (
        isinstance(value, torch.device) and value.type == "cuda"
    )
    return torch.device("cpu") if is_card else value


def one_configuration() -> None:
    """Let autotuned kernels run with the first configuration that a card has room for."""

    def first(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        for config in (kept := tuner.prune_configs(kwargs)):
            if config.pre_hook is not None:
                config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
            with suppress(*([OutOfResources] if config is not kept[-1] else [])):
                return tuner.fn.run(*args, **kwargs, **config.all_kwargs())

    Autotuner.run = first  # type: ignore[method-assign]


def pretend() -> None:
    """Let `torch.cuda` answer for an H100."""
    card = types.SimpleNamespace(
        name="NVIDIA H100", major=9, minor=0, multi_processor_count=132, warp_size=32, total_memory=80 * 2**30
    )
    for name, answer in {
        "get_device_properties": lambda *_: card,
        "get_device_capability": lambda *_: (9, 0),
        "current_device": lambda: 0,
        "is_available": lambda: True,
        "device": lambda *_: nullcontext(),
        "device_count": lambda: 1,
    }.items():
        setattr(torch.cuda, name, answer)
    utils = types.SimpleNamespace(get_device_properties=lambda *_: {"multiprocessor_count": 132})
    answers = {"utils": utils, "get_current_target": lambda: GPUTarget("cuda", 90, 32), "get_current_device": lambda: 0}
    driver.set_active(
        types.SimpleNamespace(get_active_torch_device=lambda: CARD, **answers)  # type: ignore[arg-type]
    )


class Absent(MetaPathFinder, Loader):
    """Finder of modules that are not installed: examples import them, and a kernel that needs one fails here."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return a spec for any module that nothing else finds, unless its package is installed and lacks it."""
        return None if name.partition(".")[0] in INSTALLED else ModuleSpec(name, self)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave a module empty, whatever is imported from it."""
        module.__dict__["__getattr__"] = lambda name: None
        module.__path__ = []


def cases(operator: Operator) -> list[dict[str, int]]:
    """Return the spec's shapes, and the shapes with one range at an end."""
    found = [dict(shape.dims) for shape in operator.shapes]
    for name, (low, high) in operator.ranges.items():
        found += [{**found[0], name: size} for size in (low, min(high, FEW), min(high, FEW) - 1) if size >= low]
    return [dict(items) for items in dict.fromkeys(tuple(sorted(case.items())) for case in found)]


def drawn(operator: Operator, dims: dict[str, int]) -> list[torch.Tensor]:
    """Draw the inputs of a case."""
    tensors = []
    for item in operator.inputs:
        shape, dtype = operator.input_shape(item, dims), getattr(torch, item.dtype)
        if not dtype.is_floating_point:
            tensors.append(integers(item, dims, tuple(shape)).to(dtype))
        elif item.low is not None and item.distribution == "uniform":
            tensors.append(torch.empty(tuple(shape)).uniform_(float(item.low), float(item.high)).to(dtype))
        else:
            tensors.append(torch.randn(tuple(shape)).to(dtype))
    return tensors


def integers(item: Input, dims: dict[str, int], shape: tuple[int, ...]) -> torch.Tensor:
    """Draw integers of one of the orders that these specs have."""
    low, high = int(item.low or 0), dims[item.high] if isinstance(item.high, str) else int(item.high or 2)
    if item.distribution == "unique":
        return low + torch.randperm(high - low)[: shape[0]]
    if item.distribution in ("offsets", "counts"):
        inner = shape[0] - (2 if item.distribution == "offsets" else 1)
        cuts = torch.randint(high + 1, (inner,)).sort().values
        offsets = torch.cat((torch.tensor([0]), cuts, torch.tensor([high])))
        return offsets if item.distribution == "offsets" else offsets.diff()
    return torch.randint(low, high, shape)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest difference, relative to 1 and to the value."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    wide, right = one.double(), other.double()
    return (
        float(((wide - right).abs() / right.abs().clamp(min=1.0)).nan_to_num(torch.inf).max()) if one.numel() else 0.0
    )


def tolerance(operator: Operator, dtype: str) -> float:
    """Return the largest difference that results of a dtype may have."""
    return TF32 if dtype == "float32" and operator.precision.allow_tf32 else TOLERANCE.get(dtype, 1e-4)


def main() -> None:
    """Compare a kernel with its reference."""
    folder = Path(sys.argv[1])
    operator = load_operator(str(folder / "operator"))
    main_file = folder / "candidate" / json.loads((folder / "kernel.json").read_text())["main"]
    files = sorted((folder / "candidate").rglob("*.py"), key=lambda path: path != main_file)
    source = read_candidate(files, operator.entry).text
    one_configuration()
    if not ON_CARD:
        pretend()
    importlib.import_module("sympy")  # Before `Absent`: torch's custom operators import it, and it asks for others.
    sys.meta_path.append(Absent())
    torch.manual_seed(0)
    made = folder / "joined.py"
    made.write_text(source)
    with nullcontext() if ON_CARD else OnTheHost():
        sys.modules["joined"] = types.ModuleType("joined")
        module: dict[str, Any] = vars(sys.modules["joined"])
        module["__file__"] = str(made)
        exec(compile(needed_part(ast.parse(source), [operator.entry]), str(made), "exec"), module)
        entry = module[operator.entry]
        reference = runpy.run_path(str(folder / "operator" / "reference.py"))[operator.entry]
        worst = 0.0
        for dims in cases(operator):
            given = [tensor.to(CARD) if ON_CARD else tensor for tensor in drawn(operator, dims)]
            with torch.no_grad():
                right = reference(*(tensor.clone() for tensor in given))
                found = entry(*given)
            changed = {item.name: tensor for item, tensor in zip(operator.inputs, given, strict=True) if item.mutable}
            returned = iter(() if found is None else found if isinstance(found, tuple | list) else (found,))
            right = right if isinstance(right, tuple | list) else (right,)
            for other, output in zip(right, operator.outputs, strict=True):
                one = changed[output.name] if output.name in changed else next(returned)
                worst = max(worst, difference(one, other) / tolerance(operator, output.dtype))
            if worst > 1:
                print(f"differs by {worst:.3g} tolerances at {dims}")
                raise SystemExit(1)
    print(f"at most {worst:.2g} tolerances, {len(cases(operator))} shapes, triton {triton.__version__}")


if __name__ == "__main__":
    main()
