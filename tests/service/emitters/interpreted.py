"""Runs candidates' sources: a process that reads one JSON request a line and answers one JSON object a line.

    python interpreted.py interpret     executes on small float32 tensors with Triton's interpreter
    python interpreted.py compile       compiles every launch for sm_90; nothing is executed

A request is {"source", "entry", "shapes": [[argument, ...], ...], "dtype"}; an argument is a number, a tensor of
that dtype as {"shape"}, or one of integers as {"shape", "high"}. Both modes pretend that the device has three
multiprocessors, so that strided loops turn.
"""

import importlib.util
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

if sys.argv[1] == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.errors import TritonError
from triton.runtime import JITFunction

MULTIPROCESSORS = 3

FAILURES = (TritonError, ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError)
FAILURES = (*FAILURES, SyntaxError, TypeError, ValueError)
"""What a wrong kernel may raise; anything else ends the process, and the test with it."""


class CompileOnly:
    """A Triton driver for a device that is not there."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")


def compile_only(run):
    def wrapper(self, *args, grid, warmup, **options):
        return run(self, *args, grid=grid, warmup=True, **options)

    return wrapper


def load(source, folder, count):
    path = Path(folder) / f"candidate_{count}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(argument, dtype, generator):
    if not isinstance(argument, dict):
        return argument
    if "high" in argument:
        return torch.randint(0, argument["high"], argument["shape"], generator=generator)
    return torch.randn(argument["shape"], generator=generator).to(dtype)


def answer(request, folder, count):
    module = load(request["source"], folder, count)
    outputs, dtype = [], getattr(torch, request["dtype"])
    for arguments in request["shapes"]:
        generator = torch.Generator().manual_seed(0)
        output = getattr(module, request["entry"])(*[draw(argument, dtype, generator) for argument in arguments])
        if sys.argv[1] == "interpret":
            outputs.append({"shape": list(output.shape), "values": output.double().flatten().tolist()})
    return {"outputs": outputs}


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the compiler prints its diagnostics to the standard output
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.cuda.get_device_properties = lambda device=None: SimpleNamespace(multi_processor_count=MULTIPROCESSORS)
    if sys.argv[1] == "compile":
        triton.runtime.driver.set_active(CompileOnly())
        JITFunction.run = compile_only(JITFunction.run)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        for count, line in enumerate(sys.stdin):
            try:
                result = answer(json.loads(line), folder, count)
            except FAILURES as error:
                result = {"error": f"{type(error).__name__}: {error} {error.__cause__ or ''}"}
            print(json.dumps(result), file=replies, flush=True)


if __name__ == "__main__":
    main()
