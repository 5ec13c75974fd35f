"""TorchInductor lets others have the card while it compiles, and is alone where it times."""

import fcntl
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch._inductor.runtime import benchmarking
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from workers.baselines.contenders import MODES
from workers.baselines.inductor import LINGER_S, TUNING, compiled, exclusive_tuning
from workers.gpu_lock import GpuLock

OTHERS = {fcntl.LOCK_EX: "alone", fcntl.LOCK_SH: "among others"}


@pytest.fixture
def possible(turns: GpuLock, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """What turn somebody else could have at present, at most."""
    (room,) = tmp_path.glob("*-room.lock")
    with ExitStack() as stack:
        file = os.open(room, os.O_RDONLY)
        stack.callback(os.close, file)

        def ask() -> str:
            for how, name in OTHERS.items():
                try:
                    fcntl.flock(file, how | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                fcntl.flock(file, fcntl.LOCK_UN)
                return name
            return "none"

        yield ask


def stand_in(monkeypatch, compile_fx):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # It uses what it deprecates.
        monkeypatch.setattr(import_module("torch._inductor.compile_fx"), "compile_fx", compile_fx)


@pytest.mark.parametrize("mode", MODES.values())
def test_others_have_the_card_while_it_compiles(mode, turns, possible, monkeypatch):
    seen = []

    def compile_fx(graph, inputs, config_patches):
        seen.append((possible(), config_patches))
        return graph.forward

    stand_in(monkeypatch, compile_fx)
    function = compiled(torch.fx.symbolic_trace(torch.nn.Softplus()), mode, turns)
    x = torch.linspace(-1, 1, 5)
    with turns.shared():
        assert torch.equal(function(x), torch.nn.functional.softplus(x))
        assert possible() == "among others"
    assert seen == [("alone", torch._TorchCompileInductorWrapper(mode, None, False).config)]
    assert possible() == "alone"


def test_a_compilation_that_fails_gives_the_turn_back(turns, possible, monkeypatch):
    def compile_fx(graph, inputs, config_patches):
        raise ValueError("no such kernel")

    stand_in(monkeypatch, compile_fx)
    function = compiled(torch.fx.symbolic_trace(torch.nn.Softplus()), "default", turns)
    with turns.shared():
        with pytest.raises(Exception, match="no such kernel"):
            function(torch.ones(3))
        assert possible() == "among others"
    assert possible() == "alone"


def test_it_is_alone_where_it_times(turns, possible, monkeypatch):
    monkeypatch.setattr(benchmarking.benchmarker, "benchmark_gpu", lambda call, **options: (call(), options))
    untouched = benchmarking.benchmarker.benchmark_gpu
    with turns.shared(), exclusive_tuning(turns):
        assert benchmarking.benchmarker.benchmark_gpu(possible, rep=3) == ("none", {"rep": 3})
        assert possible() == "none", "the next one may follow at once"
        time.sleep(2 * LINGER_S)
        assert possible() == "among others"
        timed = benchmarking.benchmarker.benchmark(possible, (), {}, device="cuda")
        assert timed[0] == "none", "this is how its own kernels and those of libraries are timed"
        with turns.away():
            assert benchmarking.benchmarker.benchmark_gpu(possible)[0] == "none"
            time.sleep(2 * LINGER_S)
            assert possible() == "alone"
    assert benchmarking.benchmarker.benchmark_gpu is untouched


@pytest.mark.parametrize("name", TUNING)
def test_others_have_the_card_while_it_compiles_configurations(name, turns, possible, monkeypatch):
    seen = []

    def tune(self, launcher):
        seen.append(possible())
        benchmarking.benchmarker.benchmark_gpu(lambda: seen.append(possible()))
        return launcher

    monkeypatch.setattr(CachingAutotuner, name, tune)
    monkeypatch.setattr(benchmarking.benchmarker, "benchmark_gpu", lambda call: call())
    with turns.shared(), exclusive_tuning(turns):
        assert getattr(object.__new__(CachingAutotuner), name)("launcher") == "launcher"
        assert possible() == "among others"
    assert seen == ["alone", "none"]
    assert getattr(CachingAutotuner, name) is tune


FIRST_TRACE = """
import sys
import torch
from workers.baselines.inductor import prepare
if {prepared}:
    prepare()
known = set(sys.modules)
torch.compile(torch.nn.Tanh(), backend="eager", dynamic=False, fullgraph=True)(torch.zeros(2))
print(*(name for name in sys.modules if name not in known and name.startswith(("torch._dynamo", "sympy"))))
"""


@pytest.mark.parametrize("prepared", [True, False])
def test_the_first_trace_imports_nothing_more_once_it_is_prepared(prepared: bool) -> None:
    program = FIRST_TRACE.format(prepared=prepared)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert bool(done.stdout.split()) is not prepared
