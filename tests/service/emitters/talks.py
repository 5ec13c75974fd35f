"""Talks whose models answer what the test says, and what a prompt may be about."""

import dataclasses
import random
from importlib import resources

from service.emitters import Parent, ProposalContext
from service.emitters.base import LlmContext, ShapeTiming, TriedChange
from service.emitters.llm.fences import fences
from service.llm.base import Completion, LlmAnswer
from service.operators.catalogue import load_catalogue
from workers.protocol import Shape

CATALOGUE = load_catalogue()


def seed(operator):
    return (resources.files("operators") / operator / "seeds" / "plain.py").read_text()


class Scripted:
    """Asks nobody: answers come from a function of the prompt, and every question is kept."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def __call__(self, prompt, purpose, backend=None):
        self.asked.append((prompt, purpose, backend))
        said = self.answer(prompt)
        completion = said if isinstance(said, Completion) else Completion(said, "script", 1, 1, None)
        return LlmAnswer(f"exchange-{purpose.ordinal}-{purpose.step}", backend or "script", completion)


class Shelf:
    """A desk with some kernels on it, and a judge that says what the test wants."""

    def __init__(self, kernels=(), verdict=None):
        self.kernels = list(kernels)
        self.verdict = verdict
        self.judged = []

    async def elites(self):
        return self.kernels

    async def find(self, ordinal):
        return next((kernel for kernel in self.kernels if kernel.ordinal == ordinal), None)

    async def submitted(self, exchange):
        return [kernel.candidate for kernel in self.kernels]

    async def judge(self, source, parents, note):
        self.judged.append((source, tuple(parents), note))
        return self.verdict and dataclasses.replace(self.verdict, source=source)


def another(prompt, entry="rmsnorm"):
    """The prompt's last kernel again, with a constant more: a whole file that defines the entry."""
    shown = [block.text for block in fences(prompt.user) if block.word == "python"]
    missing = "" if f"def {entry}(" in shown[-1] else f"\n\ndef {entry}(*tensors):\n    return tensors[0]\n"
    return f"Here it is.\n\n~~~python\n{shown[-1]}{missing}\nVARIANT = {len(shown)}\n~~~\n"


def llm(answer=another, **changes):
    values = {
        "search": "search-1",
        "ordinal": 7,
        "device": "model:sm_90",
        "ask": answer if isinstance(answer, Scripted) else Scripted(answer),
        "tools": Shelf(),
        "backends": ("script",),
        "strategies": ("improve",),
    }
    return LlmContext(**{**values, **changes})


def kernel(operator, number=1, **changes):
    """A parent with all that can be known of one."""
    shapes = [Shape(dims=shape.dims).key for shape in CATALOGUE[operator].shapes[:2]]
    times = tuple(
        ShapeTiming(shape, 1.0, 10.0 * place, 9.5 * place, 10.5 * place, 4.0 * place, "memory", 1.0 * place, 5.0, 2.5)
        for place, shape in enumerate(shapes, start=1)
    )
    values = {
        "candidate": f"candidate-{number}",
        "source": seed(operator),
        "objective": 1.25,
        "cell": 17,
        "readings": {"launches": 1, "registers": 40, "spill_bytes": 0, "occupancy": 0.75, "memory_path": "plain"},
        "place": "num_warps: 4; registers: 33-64",
        "note": "num_warps 8 -> 4",
        "outcome": "correct",
        "times": times,
        "job": f"candidate-{number}:0:model:sm_90:measure",
        "traced": f"candidate-{number}:trace",
        "ordinal": number,
        "limiter": "registers",
    }
    return Parent(**{**values, **changes})


def failed(operator, number=9):
    return kernel(
        operator,
        number,
        objective=None,
        outcome="compile_error",
        reason="cannot convert tl.tanh: no such name in triton.language",
        line=14,
        times=(),
        job="",
        note="improve",
    )


def context(operator="rmsnorm", draw=0, parents=None, compilers=("3.7",), **changes):
    """A brief in which every strategy is possible."""
    values = {
        "cell": 18,
        "place": "num_warps: 8; registers: 33-64",
        "neighbours": (kernel(operator, 3), kernel(operator, 4, objective=1.1, place="num_warps: 16")),
        "broken": failed(operator),
        "failures": (failed(operator), failed(operator, 10)),
        "hints": ("Try one pass over the row.",),
        "best": kernel(operator, 5, objective=1.5, place="num_warps: 16; registers: 17-32"),
        "changes": (
            TriedChange("one pass instead of two", "correct", 1.3, 1.2, "candidate-6", "candidate-6:trace"),
            TriedChange("TMA loads", "compile_error", None, 1.2, "candidate-7", "candidate-7:trace"),
            TriedChange("fewer warps", "", None, None, "candidate-8"),
        ),
        "under_way": ("improve", "explore: num_warps: 2; registers: 33-64"),
        **changes,
    }
    return ProposalContext(
        operator=CATALOGUE[operator].model_dump(mode="json"),
        target="sm_90",
        parents=(kernel(operator), kernel(operator, 2)) if parents is None else parents,
        trials=(),
        rng=random.Random(draw),
        llm=llm(**values),
        compilers=compilers,
    )
